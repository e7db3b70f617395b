"""JSON and Parquet checkpoints, and the hint of the newest one."""
