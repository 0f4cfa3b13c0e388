"""Volcano's features: scheduler configuration, plugins, eviction votes, annotations and device sharing."""
