"""Solvers that reproduce papers. `auto` does not try them."""
