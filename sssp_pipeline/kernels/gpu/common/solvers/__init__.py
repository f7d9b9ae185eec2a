"""The classes that GPU solvers extend."""
