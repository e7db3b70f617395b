"""Long runs on real servers: `make soak`. What they find is in docs/reliability.md."""
