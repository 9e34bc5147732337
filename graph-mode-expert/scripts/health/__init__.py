"""The health check of an NPU graph-mode environment: one module for each group of checks."""
