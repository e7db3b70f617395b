"""Purge: delete the files that no retained version needs."""
