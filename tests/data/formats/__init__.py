"""Tests of nopg.data.formats."""
