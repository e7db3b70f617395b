"""Transaction log: files of a version, the fold, the put, the commit loop."""
