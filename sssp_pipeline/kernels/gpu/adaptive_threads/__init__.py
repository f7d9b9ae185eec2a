"""The solver `adaptive-threads`."""
