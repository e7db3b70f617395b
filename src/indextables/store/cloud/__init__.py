"""S3, Azure, Google Cloud Storage and memory, through obstore."""
