"""What is to be learned: data by size and seed, starts, evaluation of a policy."""
