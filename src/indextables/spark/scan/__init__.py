"""Scans: native Parquet scans, searches, and how a load is opened."""
