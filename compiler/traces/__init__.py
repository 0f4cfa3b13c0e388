"""Traces of workloads: files that say which jobs arrived when, what they asked for, and how long they ran."""
