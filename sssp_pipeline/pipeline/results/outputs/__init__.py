"""Outputs: what a run stores of each row of distances."""
