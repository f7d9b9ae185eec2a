"""Row by row: text of small graphs, which Python reads one row or element at a time."""
