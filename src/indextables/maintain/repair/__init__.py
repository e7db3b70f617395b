"""Repair: write a clean log from the readable parts of a table."""
