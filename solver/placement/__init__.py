"""Where admitted gangs go: spread over the topology, packed onto nodes, and growth."""
