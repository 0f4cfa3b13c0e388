"""Benchmarks: the time from YAML to manifests, the memory, and the distance of the plan to a bound. Run `python -m
bench`."""
