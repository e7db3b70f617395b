"""The command line: an edge over tables and their logs. It holds no logic that a caller of the library would miss."""
