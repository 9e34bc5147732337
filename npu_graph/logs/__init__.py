"""Large logs: scanned in one pass into mergeable parts, read as a timeline, error clusters and a first failure."""
