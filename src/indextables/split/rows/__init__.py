"""Rows of a split by number and column."""
