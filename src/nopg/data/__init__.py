"""Transitions: the dataset, its validation, its files."""

from nopg.data.dataset import Dataset

__all__ = ["Dataset"]
