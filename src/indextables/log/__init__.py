"""The transaction log: which files form a version, the fold, the conditional put, and the one loop of all commits."""
