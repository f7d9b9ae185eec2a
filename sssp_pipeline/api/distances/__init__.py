"""`solve`, and the forms of its result: arrays, tables and paths."""
