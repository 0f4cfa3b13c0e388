"""Why a gang waits, and what would let it start, tried. `explain_waiting_gangs` is the way in.

The types of facts and repairs are in `solver.facts` and `solver.repairs`. A `world` is what the plan and the cluster
leave to a gang once some things are changed; a `case` asks whether it starts there. `blocking_facts` finds the smallest
set of obstacles that suffices: `obstacles` on nodes, `queue_obstacles` in queues, `delays` of order and time.
`tried_repairs` is the catalogue of changes: of the gang and its nodes (`gang_changes`), of queues, the `ends` of other
gangs, `precedence` over them. `search` finds the cheapest sets of them that let the gang start.
"""
