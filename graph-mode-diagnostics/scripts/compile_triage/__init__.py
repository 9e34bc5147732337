"""Layered compile triage: find the call → make variants → run them in order → say which layer fails first.

The path of a run: compile_calls (where torch.compile is called) → variants (that call rewritten for each step) →
overlay (a folder in which a variant runs) → execution (one child process) → conclusion (the layer, the first cause).
"""
