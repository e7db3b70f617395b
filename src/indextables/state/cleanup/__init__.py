"""Clean-up of version files, checkpoints and manifests."""
