"""What a cluster holds: read as a List (`state`), and related to the repository's specs (`observed`)."""
