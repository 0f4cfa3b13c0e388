"""What the peers would do, in our own words: fair ports of their ideas on `solver.problem.Problem`, to hold a plan
against.

Each module says at its top what it ports, from where, and what it leaves out. A baseline is a function `place(problem)
-> Placements`: gang -> all its pods. Only the bookkeeping is shared with the solver (`Room`, `Ledger`, `Tree`), which
is exact and nobody's idea; `plan.plan_of` makes a `Plan` of the placements, and `solver.verify` accepts it.
"""
