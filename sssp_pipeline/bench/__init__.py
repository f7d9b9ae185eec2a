"""A matrix of graphs and solvers: checked, timed, written down as JSON lines, and shown as the papers' tables."""
