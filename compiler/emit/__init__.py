"""The plan as Kubernetes objects, in the order in which they must be applied, and as a lock."""
