"""One data file: Parquet rows with a full-text index inside."""
