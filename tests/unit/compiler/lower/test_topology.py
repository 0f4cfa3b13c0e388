from __future__ import annotations

import pytest

from compiler.cluster_state.observed import ForeignPods, ObservedState
from compiler.lower.queues import lower_queues
from compiler.lower.topology import TierNames, leaf_by_node, lower_hypernodes
from compiler.specs.cluster_spec import ClusterSpec, Specs
from compiler.specs.gang_spec import TopologySpec
from compiler.specs.queue_spec import QueueSpec
from solver.problem import Topology
from tests.builders.specs import hypernode, queue

TREE = (
    hypernode("s0", 2, hypernodes=("l0", "l1"), tier_name="spine"),
    hypernode("l0", 1, nodes=("n0", "n1")),
    hypernode("l1", 1, nodes=("n2",)),
)


def specs_of(*queues: QueueSpec, default_queue: str = "default") -> Specs:
    cluster = ClusterSpec(queues[0].document, "test", default_queue=default_queue)
    return Specs(cluster, (), (), queues, (), (), (), None, ())


def test_hypernodes_point_to_their_parents_and_nodes_to_their_leaf() -> None:
    assert [(h.name, h.tier, h.parent) for h in lower_hypernodes(TREE)] == [("s0", 2, None), ("l0", 1, 0), ("l1", 1, 0)]
    assert leaf_by_node(TREE) == {"n0": 1, "n1": 1, "n2": 2}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (TopologySpec("hard", highest_tier=1), Topology("hard", 1)),
        (TopologySpec("hard", highest_tier=7), Topology("hard", 7)),
        (TopologySpec("hard", highest_tier_name="spine"), Topology("hard", 2)),
        (TopologySpec("hard", highest_tier_name="unheard-of"), Topology("hard", 3)),
        (TopologySpec("soft"), Topology("soft", 3)),
    ],
)
def test_what_is_not_limited_may_use_the_virtual_root(wanted: TopologySpec, expected: Topology) -> None:
    assert TierNames(TREE).lower_topology(wanted) == expected


def test_a_queue_without_parent_hangs_under_the_root_that_volcano_makes() -> None:
    observed = ObservedState((), (), foreign=ForeignPods(queue_used={"child": {"gpu": 3}}))
    made, origins = lower_queues(specs_of(queue("child", "team"), queue("team")), observed, ("cpu", "gpu"))
    assert [(q.name, None if q.parent is None else made[q.parent].name) for q in made] == [
        ("child", "team"),
        ("team", "root"),
        ("root", None),
        ("default", "root"),
    ]
    assert made[0].used == (0, 3)
    assert [origin.name if origin else None for origin in origins] == ["child", "team", None, None]


def test_what_a_queue_does_not_say_is_no_limit() -> None:
    specs = specs_of(queue("root", capability={"gpu": 4}), queue("team", guarantee={"gpu": 0}), default_queue="team")
    made, _ = lower_queues(specs, ObservedState((), ()), ("cpu", "gpu"))
    assert [q.name for q in made] == ["root", "team", "default"]
    assert made[0].parent is None
    assert made[0].capability == (None, 4)
    assert made[1].guarantee == (None, 0)
    assert made[1].capability == (None, None)
