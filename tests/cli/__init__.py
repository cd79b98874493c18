"""Tests of nopg.cli."""
