"""One file a format: each turns what it reads into a `Dataset`, and back."""
