"""Sessions: start a local one, or enable one that runs."""
