"""The workflow file: its models, contradictions, schema, and text with line numbers. Nothing here reads a graph."""
