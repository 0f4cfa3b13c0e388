"""Writes to the cluster: what an object is to be, whether the server takes it, and the one that writes."""
