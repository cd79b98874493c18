"""Tests of nopg.data.io."""
