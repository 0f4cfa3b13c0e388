"""Kubernetes' rules on values, as its API server 1.35 and Volcano's webhooks hold them: pods, and objects of its own.

Each function takes plain data at a path, where every value may have any type (`compiler.openapi.shape` reports types),
and adds to a `Judge`.
"""
