"""Found by scripts/hunt with seed 770003: AssertionError HigherPriority(also=(), amount=1, gangs=(), evicts=True)"""

from __future__ import annotations

from solver.problem import EvictionVotes, Gang, Node, Placement, Policy, Problem, Queue, Role
from tests.hunting.replay import replay


def test_with_the_priority_told_it_starts_where_others_of_its_queue_are_evicted() -> None:
    replay(
        "tests.property.test_repairs",
        "test_with_the_priority_told_it_starts_where_others_of_its_queue_are_evicted",
        world=Problem(
            resources=("cpu", "gpu"),
            nodes=(
                Node(name="n0", node_class=0, leaf=None, capacity=(4, 4), free=(4, 4)),
                Node(name="n1", node_class=0, leaf=None, capacity=(4, 4), free=(4, 4)),
            ),
            hypernodes=(),
            queues=(
                Queue(
                    name="q0",
                    parent=None,
                    weight=1,
                    priority=0,
                    guarantee=(None, 1),
                    deserved=(None, None),
                    capability=(None, None),
                    used=(0, 0),
                    reclaimable=False,
                ),
                Queue(
                    name="q1",
                    parent=None,
                    weight=1,
                    priority=0,
                    guarantee=(None, None),
                    deserved=(None, None),
                    capability=(None, None),
                    used=(0, 0),
                ),
            ),
            gangs=(
                Gang(
                    name="g0",
                    queue=1,
                    priority=0,
                    age=0,
                    minimum=1,
                    roles=(Role(name="r0", replicas=4, minimum=1, request=(0, 2), node_classes=frozenset({0})),),
                    running=(Placement(role=0, node=0, pods=2), Placement(role=0, node=1, pods=2)),
                    evictable=True,
                    may_lose_all=True,
                ),
                Gang(
                    name="g1",
                    queue=0,
                    priority=0,
                    age=1,
                    minimum=1,
                    roles=(Role(name="r0", replicas=1, minimum=1, request=(0, 1), node_classes=frozenset({0})),),
                    may_lose_all=True,
                ),
                Gang(
                    name="g2",
                    queue=1,
                    priority=0,
                    age=2,
                    minimum=1,
                    roles=(Role(name="r0", replicas=1, minimum=1, request=(0, 1), node_classes=frozenset({0})),),
                    may_lose_all=True,
                ),
                Gang(
                    name="w0",
                    queue=0,
                    priority=0,
                    age=20,
                    minimum=1,
                    roles=(Role(name="r0", replicas=1, minimum=1, request=(0, 1), node_classes=frozenset({0})),),
                    may_evict=False,
                ),
            ),
            policy=Policy(capacity=True),
            reclaim_enabled=True,
            reclaim_votes=EvictionVotes(whole_gangs=False),
        ),
    )
