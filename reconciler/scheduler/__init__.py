"""Volcano: its configuration, and whether its components work."""
