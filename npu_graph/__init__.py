"""Python shared by two or more parts of the bundle; standard library only, Python 3.8 syntax."""

from __future__ import annotations

__version__ = "0.1.0"
