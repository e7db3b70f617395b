"""Scans: from a query and a predicate to rows, counts and aggregations."""
