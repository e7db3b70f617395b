"""Benchmarks beside delta-rs and pyiceberg: `python -m bench`. What each figure means: `docs/benchmarks.md`."""
