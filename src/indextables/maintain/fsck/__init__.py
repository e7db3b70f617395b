"""Fsck: check everything that a table needs, without changing anything."""
