"""Formats: a reader for each format of edge lists, listed in `registry`; `parsing/` has what several readers share."""
