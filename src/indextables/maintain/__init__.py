"""Maintenance commands: merge, purge, fsck, repair, restore, describe.

Each command returns an Arrow table.
"""
