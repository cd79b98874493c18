"""Kernels, bandwidths and neighbour lists."""
