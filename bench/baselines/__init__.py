"""Peers in our own words: fair ports of their ideas on `solver.problem.Problem`, to compare a plan with.

Each module documents at its top its source, and what it leaves out. A baseline is a function `place(problem) ->
Placements`: gang -> all its pods. Only the bookkeeping is shared with the solver (`FreeNodes`, `QueueBooks`,
`TopologyTree`), which is exact; `plan_of_placements` makes a `Plan` of the placements, and `solver.verify` accepts it.
"""
