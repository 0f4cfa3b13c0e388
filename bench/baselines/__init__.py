"""What the peers would do, in our own words: fair ports of their ideas on `solver.problem.Problem`, to hold a plan
against.

Each module says at its top what it ports, from where, and what it leaves out. A baseline is a function `place(problem)
-> Placements`: gang -> all its pods. Only the bookkeeping is shared with the solver (`FreeNodes`, `QueueBooks`,
`TopologyTree`), which is exact; `plan_of_placements` makes a `Plan` of the placements, and `solver.verify` accepts it.
"""
