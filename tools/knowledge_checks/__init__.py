"""The checks of tools/verify_knowledge.py, one module for each kind of fact."""
