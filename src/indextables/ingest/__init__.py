"""Ingest: turn files and Python values into Arrow batches for a table."""
