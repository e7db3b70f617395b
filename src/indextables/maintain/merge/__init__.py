"""Merge: combine many small splits into few large ones."""
