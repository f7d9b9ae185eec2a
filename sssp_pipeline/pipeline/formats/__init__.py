"""Readers of edge lists, one module a format, listed in `workflow/registries.py`; `parsing/` has what readers share."""
