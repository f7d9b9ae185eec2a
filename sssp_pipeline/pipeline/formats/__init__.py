"""Readers of edge lists, one module a format in a folder of its kind; `workflow/registries.py` lists them."""
