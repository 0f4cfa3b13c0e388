"""Large-neighbourhood search, written once."""
