"""Policies: deterministic, Gaussian, categorical, linear, any torch module."""
