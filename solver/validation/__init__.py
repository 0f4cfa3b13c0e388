"""Whether a problem is well formed: its types, then its values."""
