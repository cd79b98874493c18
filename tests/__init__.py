"""Tests; the tree mirrors src/nopg."""
