"""What is ours, and what of it may be deleted."""
