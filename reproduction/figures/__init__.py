"""The experiments: the paper's figures and table, and comparisons beside them."""
