"""The HTML report that logs, profiles and measurements share: one self-contained page, its drawings, its style."""
