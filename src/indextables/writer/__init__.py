"""Writes: put rows into splits by partition, then commit once."""
