"""SQL statements with commands, search operators and table functions."""
