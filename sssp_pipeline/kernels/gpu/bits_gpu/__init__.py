"""The solver `bits-gpu`."""
