"""Specs: what the documents of a cluster say, independent of their kinds.

The kinds (`compiler.kinds`) make specs of documents, the checks examine them, and lowering turns them into a
`solver.problem.Problem`. Amounts are integers: cpu in millicores, all else in whole units (bytes, devices, pods),
requests rounded up.
"""
