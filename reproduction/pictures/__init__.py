"""Pictures of the experiments."""
