"""Avro states: the state manifest and the manifests of files."""
