"""Triton kernels for one update on a GPU, and the neighbour search that feeds them.

`tests/gpu/reference.py` says in plain torch what every kernel computes. Shapes: n samples, m rows
of k entries, d_a action dimensions, B policies that share a pattern.
"""
