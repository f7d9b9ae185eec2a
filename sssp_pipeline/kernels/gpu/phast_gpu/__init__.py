"""The solver `phast-gpu`."""
