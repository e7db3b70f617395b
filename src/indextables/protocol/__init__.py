"""The wire format: bytes to checked values and back. Pure; nothing here reads or writes a store."""
