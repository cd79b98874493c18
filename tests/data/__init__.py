"""Tests of nopg.data."""
