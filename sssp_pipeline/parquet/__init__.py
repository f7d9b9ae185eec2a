"""Parquet files that are assembled from memory, not encoded."""
