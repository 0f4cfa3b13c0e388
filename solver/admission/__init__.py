"""Which gangs start: batches, the admission model with its goals, the greedy floor."""
