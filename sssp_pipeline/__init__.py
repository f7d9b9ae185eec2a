"""Exact shortest paths from many sources over big graphs, on GPUs and CPUs, with Parquet in and out."""

__version__ = "0.1.0"
