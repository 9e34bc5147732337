"""Compare eager and graph results step by step and classify the difference; used by compare_modes.py."""
