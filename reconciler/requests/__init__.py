"""Requests of an operator: suspension, resumption, another run."""
