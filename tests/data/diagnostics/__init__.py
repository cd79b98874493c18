"""Tests of nopg.data.diagnostics."""
