"""The workflow file: its models, what contradicts itself, its schema, and its text with line numbers."""
