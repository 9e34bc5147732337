"""Stand-in: its presence is what the check looks at."""
