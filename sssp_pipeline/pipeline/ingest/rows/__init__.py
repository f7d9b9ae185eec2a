"""Rows: edges are grouped by source, kept, and made into sorted rows, range by range."""
