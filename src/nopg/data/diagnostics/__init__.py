"""A dataset in words and numbers, and what they mean for learning."""
