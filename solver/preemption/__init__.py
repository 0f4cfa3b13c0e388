"""Room by eviction: the victims of the least loss, for one preemptor and for several together."""
