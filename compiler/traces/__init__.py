"""Traces of workloads: files with the arrivals, requests and run times of jobs."""
