"""The solver `near-far`."""
