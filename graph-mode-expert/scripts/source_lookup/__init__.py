"""What locate_source.py reads besides the source map: call chains, and a source tree of the user."""
