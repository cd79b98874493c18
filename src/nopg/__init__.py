"""Policies from a few logged transitions: the nonparametric off-policy policy gradient."""

from nopg.data import Dataset

__version__ = "0.1.0"
__all__ = ["Dataset"]
