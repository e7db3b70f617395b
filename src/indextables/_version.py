"""The version of this library, as it stands in every commit it makes."""

__version__ = "0.1.0"
