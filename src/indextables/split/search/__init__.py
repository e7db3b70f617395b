"""Search one split: rows, counts, scores, aggregations, snippets."""
