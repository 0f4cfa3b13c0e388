"""Runs of jobs: each runs once, and what is recorded of it."""
