"""What a run writes, and how it is read again: run folder, metrics, distances, report."""
