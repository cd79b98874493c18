"""Triton kernels for one update on a GPU, and the neighbour search that feeds them.

Each file is one kernel; `tests/gpu/reference.py` says in plain torch what every
kernel computes. Importing this package needs nothing; importing a kernel needs the
extra "gpu".

Shapes, everywhere: n samples, m rows of k entries, d_a action dimensions, and
an optional leading axis of B policies that share the rows' pattern.
"""
