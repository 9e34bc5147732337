"""The commands of kb.py, one module per purpose."""
