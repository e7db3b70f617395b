"""The index of a split: fields, tokenizers, documents, terms, cache."""
