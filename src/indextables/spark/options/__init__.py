"""Options, settings, types and schemas that reach us through Spark."""
