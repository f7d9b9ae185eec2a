"""The solver `frontier-bellman-ford`."""
