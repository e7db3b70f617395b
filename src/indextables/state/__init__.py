"""States and checkpoints: derived from the log, read in its place, and always to be rebuilt from it."""
