"""Parts of an index: which pieces a search needs, fetched into sparse files."""
