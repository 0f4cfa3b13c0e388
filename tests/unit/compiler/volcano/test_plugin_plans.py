"""What a plan makes of every plugin that there is, and where Volcano decides otherwise."""

from __future__ import annotations

import pytest

from compiler.checks.check import all_rules
from compiler.specs.cluster_spec import PluginSpec
from compiler.specs.queue_spec import NodeGroupAffinity
from compiler.volcano.node_groups import preference_ranks
from compiler.volcano.plugin_plans import PLUGIN_PLANS
from compiler.volcano.scheduler_conf import PLUGIN_NAMES


def test_every_plugin_is_in_the_table_and_every_code_in_it_exists() -> None:
    assert PLUGIN_PLANS.keys() == set(PLUGIN_NAMES)
    codes = {word.strip("(),") for plan in PLUGIN_PLANS.values() for word in plan.planned.split() if "(GP" in word}
    assert codes
    assert codes <= all_rules().keys()


def test_a_plugin_of_which_nothing_is_planned_says_why_or_warns() -> None:
    for name, plan in PLUGIN_PLANS.items():
        assert not plan.planned.startswith("nothing") or plan.differences or "develop/decisions/" in plan.planned, name


@pytest.mark.parametrize(
    ("affinity", "arguments", "ranks"),
    [
        (NodeGroupAffinity(("a", "b")), {}, ()),
        (NodeGroupAffinity(("a",), ("b",)), {}, (0, 0, 1, 0)),
        (NodeGroupAffinity((), ("a", "b")), {}, ()),
        (NodeGroupAffinity((), ("b", "a")), {"enablePreferredOrder": True}, (0, 1, 0, 0)),
        (NodeGroupAffinity(("c",), ("b", "a")), {"enablePreferredOrder": True}, (0, 2, 1, 0)),
        (NodeGroupAffinity(("a", "b"), ("b", "c")), {}, (0, 1, 0, 2)),
        (NodeGroupAffinity(("a", "b"), ("a", "b")), {}, ()),
        (NodeGroupAffinity(("a",), (), (), ("b",)), {}, (0, 0, 1, 0)),
        (NodeGroupAffinity(("a",), ("b",), ("b",)), {}, ()),
        (NodeGroupAffinity((), (), (), ("a", "b")), {"enablePreferredOrder": True}, ()),
    ],
)
def test_open_groups_are_ranked_by_volcanos_scores(
    affinity: NodeGroupAffinity, arguments: dict[str, bool], ranks: tuple[int, ...]
) -> None:
    """A required group before a preferred one, both together before either; first named before later ones where order
    counts; what anti-affinity prefers not to use last."""
    groups = (None, "a", "b", "c")
    assert preference_ranks(PluginSpec("nodegroup", arguments, {}), affinity, groups) == ranks
    assert preference_ranks(PluginSpec("nodegroup", arguments, {"enableNodeOrder": False}), affinity, groups) == ()
