"""Tests of nopg.data.report."""
