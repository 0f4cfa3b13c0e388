"""Values that parts exchange: differences, gate lifts, evictions, and the results of writes."""
