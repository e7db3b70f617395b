"""Differences between the supported versions of PySpark, in one place."""
