"""Mutable state with undo: free amounts of nodes, what queues hold, pod counts per pod rule. No solver runs here."""
