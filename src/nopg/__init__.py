"""Policies from few logged transitions by nonparametric off-policy gradients."""

from nopg.data import Dataset

__version__ = "0.1.0"
__all__ = ["Dataset"]
