"""Runs of jobs: each runs once, and has a record."""
