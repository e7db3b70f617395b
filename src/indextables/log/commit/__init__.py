"""Commits: plan the actions, put one version file if absent, resolve conflicts."""
