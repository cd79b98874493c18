"""Sparse rows and the solvers for I - gamma P."""
