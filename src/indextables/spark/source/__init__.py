"""`format("indextables")`: the Python data source, batch and streaming."""
