"""Readers of edge lists, one module a format; `workflow/registries.py` lists them."""
