"""Filter sheets: the term filters of many splits in one file, read by range."""
