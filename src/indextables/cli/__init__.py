"""The command line: a thin layer over tables and their logs."""
