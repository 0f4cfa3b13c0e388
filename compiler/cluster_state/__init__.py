"""A cluster's objects: read as a List (`state`), and related to the repository's specs (`observed`)."""
