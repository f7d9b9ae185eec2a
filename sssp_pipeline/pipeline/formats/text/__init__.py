"""Text: lines of ids and weights, which compiled code reads on several threads."""
