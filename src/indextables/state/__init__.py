"""States and checkpoints: derived from the log, and always rebuilt from it."""
