"""What Volcano knows: scheduler configuration, plugins, eviction votes, annotations and device sharing."""
