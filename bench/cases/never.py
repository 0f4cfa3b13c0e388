"""A gang with a hard topology that 10,000 nodes cannot hold: how long the proof takes, whichever way it must be
found."""

from __future__ import annotations

import time
from functools import partial

from bench.measure import peak_memory
from bench.registry import Comparison, Figures, register_case
from bench.worlds import CORE, GPUS_PER_NODE, SPINE, SUPERNODE
from solver.planner import solve
from solver.problem import Gang, HyperNode, Node, Problem, Queue, Role, Topology
from solver.verify import verify

NODES, SECONDS = 10_000, 1

GANG_REQUESTS = {
    # name: (pods and GPUs of each role, tier, nodes of each supernode that others hold, whether it can ever start)
    "a pod more than a supernode has nodes": (((SUPERNODE + 1, 8),), 1, 0, True),
    "two roles that fit alone but not together": (((SUPERNODE, 5), (SUPERNODE, 4)), 1, 0, True),
    "two roles of a spine": (((SUPERNODE * SPINE, 5), (90, 8)), 2, 0, True),
    "a supernode while each is half busy": (((SUPERNODE // 2 + 1, 8),), 1, SUPERNODE // 2, False),
}


def infeasible_problem(roles: tuple[tuple[int, int], ...], tier: int, busy_nodes: int) -> Problem:
    """One gang in a cluster of 3 tiers whose supernodes have `busy` nodes each that others hold."""
    counts = [NODES // SUPERNODE]
    for size in (SPINE, CORE):
        counts.append(-(-counts[-1] // size))
    first = [sum(counts[:level]) for level in range(3)]
    parents = (
        [first[1] + h // SPINE for h in range(counts[0])]
        + [first[2] + h // CORE for h in range(counts[1])]
        + [None] * counts[2]
    )
    tiers = [level + 1 for level in range(3) for _ in range(counts[level])]
    tree = tuple(HyperNode(f"h{h}", tier, parent) for h, (tier, parent) in enumerate(zip(tiers, parents, strict=True)))
    full = (GPUS_PER_NODE,)
    nodes = tuple(
        Node(f"n{n}", 0, n // SUPERNODE, full, (0,) if n % SUPERNODE < busy_nodes else full) for n in range(NODES)
    )
    made = tuple(Role(f"r{t}", pods, pods, (gpus,), frozenset({0})) for t, (pods, gpus) in enumerate(roles))
    gang = Gang("gang", 0, 0, 0, sum(role.minimum for role in made), made, Topology("hard", tier))
    return Problem(("gpu",), nodes, tree, (Queue("all", None, 1, 0, (None,), (None,), (None,), (0,)),), (gang,))


def measure_proof(name: str) -> Figures:
    roles, tier, busy, ever = GANG_REQUESTS[name]
    world = infeasible_problem(roles, tier, busy)
    wall, cpu = time.perf_counter(), time.process_time()
    plan = solve(world)
    solved = time.perf_counter()
    faults = verify(world, plan)
    phases = {"solve": solved - wall, "verify": time.perf_counter() - solved}
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if faults:
        raise RuntimeError(f"not a valid plan: {faults[0]}")
    (decision,) = plan.decisions
    facts = decision.facts
    row = (
        name,
        f"{wall:.2f}",
        f"{cpu:.2f}",
        " ".join(fact.code for fact in facts),
        "never" if any(fact.never for fact in facts) else "not now",
    )
    comparison = Comparison(
        f"Proofs that a gang cannot start, {NODES:,} nodes",
        ("the gang asks for", "seconds", "cpu s", "code", "says"),
        (row,),
    )
    claims = {
        "it is proved, and said of the right time": decision.action == "wait"
        and all(fact.code != "GW110" and fact.never == ever for fact in facts)
        and plan.batches[0].verdict == "proven"
    }
    return Figures(wall, cpu, peak_memory(), phases, comparison=comparison, claims=claims)


for number, name in enumerate(GANG_REQUESTS, 1):
    register_case(
        f"never-{number}",
        f"prove that {NODES:,} nodes cannot hold: {name}",
        partial(measure_proof, name),
        seconds=SECONDS,
    )
