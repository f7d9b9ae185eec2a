"""Divides a graph by small separators into parts, at one cut or at many."""
