"""The solver `bellman-ford`."""
