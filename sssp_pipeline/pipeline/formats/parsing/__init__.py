"""Parsing: what readers of text share, from blocks of lines to tokens, numbers and the errors that name a line."""
