"""What parts hand to each other: differences, gate lifts, evictions, and what became of writes."""
