"""Readers of edge lists, one module a format; `registry` lists them."""
