"""Rows are named by family and key, and docs/develop/model.md describes every family."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from solver.mip.rows import Row
from solver.models.constraints import CONSTRAINTS
from solver.models.sets import Sets
from solver.models.variables import build_variables
from solver.placement.batch import batch_sets
from solver.problem import GroupQuota, Policy, Problem
from solver.state.state import State
from tests.builders.problems import device_slots, gang, hard_topology, nodes, pod_rule, problem, queue, role, subgroup
from tests.builders.strategies import with_quota

PAGE = (Path(__file__).parents[4] / "docs" / "develop" / "model.md").read_text(encoding="utf-8")
FAMILIES = set(re.findall(r"\*\*([a-z. -]+)\*\*", PAGE.split("## Objectives")[0]))


def sets() -> Sets:
    """A batch with rows of every family."""
    world = problem(
        nodes(2, leaf="s0", gpu=8, slots=device_slots("dev", 2, gpu=4)),
        nodes(2, leaf="s1", gpu=8),
        queue("a", guarantee={"gpu": 4}, capability={"gpu": 16}, strict_order=True),
        queue("b", guarantee={"gpu": 4}, capability={"gpu": 16}),
        gang("split", role(4, gpu=1), queue="a", subgroups=(subgroup(2),)),
        gang("near", role(2, gpu=4), queue="a", topology=hard_topology(1)),
        gang("open", role(2, minimum=1, gpu=3), role(2, minimum=1, gpu=2), queue="b", minimum=3),
        gang("slots", role(1, gpu=4, slot_requests=[("dev", 1, {"gpu": 4})]), queue="b"),
        gang("apart", role(2, gpu=1, owned_rules=[0], selecting_rules=[0]), queue="b"),
        gang("beside", role(2, gpu=1, owned_rules=[1], selecting_rules=[1]), queue="b"),
        gang("away", role(1, gpu=1, owned_rules=[3]), role(1, gpu=1, selecting_rules=[3]), queue="b"),
        gang("even", role(2, gpu=1, owned_rules=[2], selecting_rules=[2]), queue="b"),
        hypernodes={"s0": (1, None), "s1": (1, None)},
        policy=Policy(capacity=True),
        pod_rules=tuple(pod_rule(kind, [0, 0, 1, 1]) for kind in ("anti-affinity", "affinity", "spread", "separation")),
    )
    world = with_quota(replace(world, node_groups=("g",)), GroupQuota(0, 0, 0, 24), (0,))
    return batch_sets(State.initial(world), range(len(world.gangs)))


def rows(s: Sets) -> list[Row]:
    x = build_variables(s)
    return [row for family in CONSTRAINTS for row in family(s, x)]


def test_no_two_rows_have_one_name() -> None:
    names = [row.name for row in rows(sets())]
    assert len(set(names)) == len(names)


def test_the_page_has_every_family_and_the_model_every_family_of_the_page() -> None:
    s = sets()
    single = replace(s, buckets=tuple(replace(b, nodes=(n,)) for b in s.buckets for n in b.nodes))
    families = {row.family for row in [*rows(s), *rows(single)]}
    described = {name for name in FAMILIES if any(f == name or f.startswith(f"{name}.") for f in families)}
    assert FAMILIES - described == {"pod rules"}
    assert all(any(f == name or f.startswith(f"{name}.") for name in FAMILIES) for f in families)


def separated(*, selects_itself: bool = False, selected_too: bool = False, present: int = 0) -> Problem:
    """Three gangs of two pods, each with a rule that selects the two others, and one that is separated from none.
    selects_itself: the first one's rule selects it too; selected_too: and the last gang. present: pods of none that
    each rule selects in the second domain."""

    def selecting(rho: int) -> list[int]:
        return [other for other in range(3) if other != rho or (selects_itself and rho == 0)]

    gangs = [
        gang(name, role(2, gpu=1, owned_rules=[rho], selecting_rules=selecting(rho)), topology=hard_topology(1))
        for rho, name in enumerate("abc")
    ]
    free = role(2, gpu=1, selecting_rules=[0] if selected_too else [])
    return problem(
        nodes(2, leaf="s0", gpu=8),
        nodes(2, leaf="s1", gpu=8),
        *gangs,
        gang("free", free, topology=hard_topology(1)),
        hypernodes={"s0": (1, None), "s1": (1, None)},
        pod_rules=tuple(pod_rule("separation", [0, 0, 1, 1], selected_present={1: present}) for _ in gangs),
    )


@pytest.mark.parametrize(
    ("world", "rules"),
    [
        (separated(), []),
        (separated(selects_itself=True), [0]),
        (separated(selected_too=True), [0]),
        (separated(present=1), [0, 1, 2]),
    ],
)
def test_gangs_separated_pair_by_pair_share_no_domain_in_one_row_each(world: Problem, rules: list[int]) -> None:
    """rules: those that these rows do not imply, and that keep rows of their own."""
    found = rows(batch_sets(State.initial(world), range(len(world.gangs))))
    cliques = [row for row in found if row.family == "separation.clique"]
    assert [row.key[:2] for row in cliques] == [(0, 0)] * len(cliques)
    assert cliques
    others = {row.key[0] for row in found if row.family.startswith("separation.") and row not in cliques}
    assert sorted(others) == rules
