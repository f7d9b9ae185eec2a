"""Solvers on the CPU, and the class that they extend."""
