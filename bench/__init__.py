"""Benchmarks: how long the way from YAML to manifests takes, how much memory, and how near the plan comes to a bound.
Run `python -m bench`."""
