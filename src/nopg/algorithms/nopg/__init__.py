"""The paper's algorithm: gradient ascent on the kernel estimate of the return."""
