"""The Python API: what `import sssp_pipeline` offers, for graphs in memory, graph stores and runs."""
