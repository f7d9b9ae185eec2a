"""Columns: which of them are source, target and weight, and how the first rows of an input are understood."""
