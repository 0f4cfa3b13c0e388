"""What a cluster holds, as a List of objects."""
