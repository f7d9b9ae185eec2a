"""The bench: it checks and times solvers on graphs, writes JSON lines, and makes tables and figures of them."""
