"""The solver `work-efficient`."""
