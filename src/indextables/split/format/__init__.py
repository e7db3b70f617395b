"""The layout of a split file: footer directory, index members, page table."""
