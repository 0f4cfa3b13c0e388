"""Room by eviction: who may go for whom at the least loss, for one gang and for several together."""
