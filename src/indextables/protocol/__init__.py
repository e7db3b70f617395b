"""Wire format: bytes to checked values and back; pure, without store access."""
