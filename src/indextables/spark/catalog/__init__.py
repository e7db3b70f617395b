"""Tables of the session catalog: entries, names, cached plans."""
