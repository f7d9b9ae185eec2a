"""Outputs with answers: reductions, betweenness and flows."""
