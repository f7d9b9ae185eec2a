"""Exports: the graph of a store is written to one file of a common format. `graph_export` lists the formats."""
