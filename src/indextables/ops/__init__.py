"""Commands on tables: one file a verb. Each takes a log and answers with an Arrow table of a fixed schema."""
