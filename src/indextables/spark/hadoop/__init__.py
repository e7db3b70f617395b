"""Hadoop's settings and paths in our terms."""
