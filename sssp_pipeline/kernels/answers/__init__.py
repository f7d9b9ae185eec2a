"""Answers that are made of a row: reductions, distributions, nearest vertices."""
