"""Which objects are ours, and which of them may be deleted."""
