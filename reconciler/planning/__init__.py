"""The plan in force, a newer one, and when another is compiled."""
