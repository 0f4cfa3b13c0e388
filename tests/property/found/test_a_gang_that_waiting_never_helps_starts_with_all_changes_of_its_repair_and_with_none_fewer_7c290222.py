"""Found by scripts/hunt with seed 770003: AssertionError (MoreNodeClasses(also=(SmallerPods(also=(), role=0, [...]"""

from __future__ import annotations

from solver.problem import Gang, Node, Placement, Problem, Queue, Role
from tests.hunting.replay import replay


def test_a_gang_that_waiting_never_helps_starts_with_all_changes_of_its_repair_and_with_none_fewer() -> None:
    replay(
        "tests.property.test_repairs",
        "test_a_gang_that_waiting_never_helps_starts_with_all_changes_of_its_repair_and_with_none_fewer",
        world=Problem(
            resources=("cpu", "gpu"),
            nodes=(
                Node(name="n0", node_class=0, leaf=None, capacity=(4, 4), free=(4, 4)),
                Node(name="n1", node_class=0, leaf=None, capacity=(4, 4), free=(4, 4)),
            ),
            hypernodes=(),
            queues=(
                Queue(
                    name="q",
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
                    name="runs0",
                    queue=0,
                    priority=0,
                    age=0,
                    minimum=1,
                    roles=(Role(name="r", replicas=1, minimum=1, request=(1, 4), node_classes=frozenset({0, 1})),),
                    running=(Placement(role=0, node=0, pods=1),),
                ),
                Gang(
                    name="runs1",
                    queue=0,
                    priority=0,
                    age=1,
                    minimum=1,
                    roles=(Role(name="r", replicas=1, minimum=1, request=(1, 4), node_classes=frozenset({0, 1})),),
                    running=(Placement(role=0, node=1, pods=1),),
                ),
                Gang(
                    name="asks",
                    queue=0,
                    priority=0,
                    age=9,
                    minimum=2,
                    roles=(
                        Role(name="r0", replicas=1, minimum=1, request=(5, 1), node_classes=frozenset({1})),
                        Role(name="r1", replicas=1, minimum=1, request=(5, 1), node_classes=frozenset({1})),
                    ),
                ),
            ),
        ),
    )
