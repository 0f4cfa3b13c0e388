"""A workload replayed on a cluster over time: events, policies that decide at each, and measures of the outcome."""
