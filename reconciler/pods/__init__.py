"""Pods of gangs: which gets which node and when, which is evicted, and what a node holds by our own doing."""
