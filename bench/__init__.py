"""Benchmarks beside delta-rs: `python -m bench`. What each figure means stands in `docs/benchmarks.md`."""
