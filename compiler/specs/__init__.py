"""Specs: the contents of a cluster's documents, independent of their kinds.

The kinds (`compiler.kinds`) build specs of documents, the checks examine them, and lowering turns them into a
`solver.problem.Problem`. Amounts are integers: cpu in millicores, all else in whole units (bytes, devices, pods),
requests rounded up.
"""
