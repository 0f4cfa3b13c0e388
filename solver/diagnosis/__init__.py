"""Why a gang waits, and what would let it start, tried. `explain_waiting_gangs` is the way in.

The types of facts and repairs are in `solver.facts` and `solver.repairs`. `facts` finds the smallest set of obstacles
that suffices: `obstacles` on nodes (their numbers in `node_facts`), `queue_obstacles` in queues, `delays` of order and
time. `repairs` tries what would help in a `trial`: `gang_changes`, `queue_changes`, `node_changes`, the `ends` of other
gangs, `precedence` over them; `delay_repairs` against delays. `question` asks whether it fits, in a
scenario of `state`.
"""
