"""Aggregations: terms, statistics, histograms."""
