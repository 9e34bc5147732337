"""From stacks, logs and device state of hung ranks to the class of hang; used by locate_hang.py."""
