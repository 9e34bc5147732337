"""Run a callable eagerly and find what would break or spoil a capture of it; used by probe_capture.py."""
