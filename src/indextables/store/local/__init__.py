"""Local disk, atomic and durable."""
