"""Two ways to a policy: the paper's, and a search in learned models."""
