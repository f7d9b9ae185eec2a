"""Answers in place of distances: reductions, nearest vertices, pairs, betweenness and flows."""
