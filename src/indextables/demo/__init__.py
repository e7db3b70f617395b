"""The demo: write sample logs with Spark, search them, travel in time."""
