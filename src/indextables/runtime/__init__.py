"""Runtime: pools, background work, cancellation, caches, local directories."""
