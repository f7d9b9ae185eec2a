"""Parsing: what several readers share, from decompressed bytes and lines to tokens, numbers and columns."""
