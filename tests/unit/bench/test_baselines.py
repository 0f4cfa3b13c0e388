"""The ports of the peers' ideas: each does what its module says, in cases small enough to work out by hand, and the
verifier accepts its plans."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.baselines import kueue, single, volcano
from bench.baselines.gangpreempt import bundles_in_order, preempt_for_gang
from bench.baselines.plan import plan_of_placements
from bench.baselines.site import BaselineCluster, Placements
from solver.problem import Placement, Problem
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.described import world_of
from tests.builders.problems import device_slots, gang, hard_topology, nodes, problem, role, running_pods, subgroup

SPINE = {"s0": (1, "spine"), "s1": (1, "spine"), "spine": (2, None)}
POLICIES = {"volcano": volcano.place_gangs, "kueue": kueue.place_gangs}


BASELINES: dict[str, Callable[[Problem], Placements]] = {
    **POLICIES,
    "best fit": single.place_by_best_fit,
    "gradient": lambda world: single.place_by_gradient(world, "gpu", 1),
}
CASES = beside(__file__)


def valid(world: Problem, placements: Placements) -> bool:
    return verify(world, plan_of_placements(world, placements)) == []


@pytest.mark.parametrize("case", CASES)
def test_a_baseline_places(case: str) -> None:
    for row in CASES[case] if isinstance(CASES[case], list) else [CASES[case]]:
        world = world_of(**{key: said for key, said in row.items() if key not in ("by", "places")})
        placed = {name: BASELINES[name](world) for name in row["by"]}
        found = {
            name: {world.gangs[j].name: {p.node: p.pods for p in pods} for j, pods in placements.items()}
            for name, placements in placed.items()
        }
        assert found == dict.fromkeys(row["by"], row["places"])
        assert all(valid(world, placements) for placements in placed.values())


@pytest.mark.parametrize("name", POLICIES)
def test_what_a_baseline_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no subgroups"):
        POLICIES[name](problem(nodes(2, gpu=8), gang("a", role(2, gpu=8), subgroups=(subgroup(2),))))


def share(of: int) -> tuple[tuple[str, int, dict[str, int]], ...]:
    """A portion: so many tenths of one device."""
    return (("device", 1, {"gpu": of}),)


@pytest.mark.parametrize(
    "place", [single.place_by_best_fit, volcano.place_gangs, lambda world: single.place_by_gradient(world, "gpu", 10)]
)
def test_every_baseline_gives_a_pod_its_share_of_one_device(place: Callable[[Problem], Placements]) -> None:
    """12 are free, 6 on each of two devices: room for a pod of 6 each, none for one of 8."""
    world = problem(
        nodes(1, gpu=20, free={"gpu": 12}, slots=device_slots("device", 2, {"gpu": 6}, gpu=10)),
        gang("large", role(1, gpu=8, slot_requests=share(8))),
        *(gang(f"g{i}", role(1, gpu=6, slot_requests=share(6))) for i in range(3)),
    )
    placements = place(world)
    assert sorted(placements) == [1, 2]
    assert valid(world, placements)


def test_single_pods_only() -> None:
    with pytest.raises(ValueError, match="more than one pod"):
        single.place_by_best_fit(problem(nodes(2, gpu=8), gang("a", role(2, gpu=8))))


def victims(*gangs_: tuple[int, int, int], priority: int = 0) -> Problem:
    """One leaf of nodes with 8 GPUs, each held by a gang of (pods, minimum, GPUs of a pod); a gang of 1 pod x 2 GPUs
    asks."""
    running = [
        gang(
            f"g{n}",
            role(pods, minimum=least, gpu=size),
            running=(running_pods(0, n, pods),),
            loss=60,
            priority=priority,
        )
        for n, (pods, least, size) in enumerate(gangs_)
    ]
    return problem(
        nodes(len(gangs_), leaf="s0", gpu=8),
        *running,
        gang("winner", role(1, gpu=2), priority=9),
        hypernodes=SPINE,
        preempt_enabled=True,
    )


def test_gangpreempt_takes_the_whole_safe_bundle_before_any_whole_gang() -> None:
    world = victims((4, 4, 2), (8, 2, 1))
    found = preempt_for_gang(world, 2)
    assert found is not None
    assert dict(found.evicted_pods) == {1: (Placement(0, 1, 6),)}  # two pods would do
    assert found.placements == (Placement(0, 1, 1),)


def test_gangpreempt_goes_on_to_whole_gangs_the_youngest_first() -> None:
    found = preempt_for_gang(victims((4, 4, 2), (8, 8, 1)), 2)
    assert found is not None
    assert dict(found.evicted_pods) == {1: (Placement(0, 1, 8),)}


def test_gangpreempt_evicts_no_gang_of_its_own_priority() -> None:
    assert preempt_for_gang(victims((4, 4, 2), priority=9), 1) is None


def test_a_gang_outside_the_domain_is_no_whole_bundle_of_it() -> None:
    world = problem(
        nodes(1, leaf="s0", gpu=8), nodes(1, leaf="s1", gpu=8),
        gang("wide", role(2, gpu=8), running=(running_pods(0, 0, 1), running_pods(0, 1, 1)), loss=60),
        gang("winner", role(1, gpu=8), priority=9, topology=hard_topology(1)),
        hypernodes=SPINE, preempt_enabled=True,
    )  # fmt: skip
    assert list(bundles_in_order(world, 1, frozenset({0}))) == []
    assert preempt_for_gang(world, 1) is None


def test_what_a_port_evicts_too_much_is_all_that_the_verifier_finds() -> None:
    world = victims((4, 4, 2), (8, 2, 1))
    found = preempt_for_gang(world, 2)
    assert found is not None
    kept = {0: world.gangs[0].running, 1: (Placement(0, 1, 2),), 2: found.placements}
    assert {fault.rule for fault in verify(world, plan_of_placements(world, kept, found.evicted_pods, 2))} == {
        "eviction_necessity"
    }


def test_the_site_counts_what_runs() -> None:
    world = problem(nodes(2, gpu=8), gang("a", role(2, gpu=4), running=(running_pods(0, 1, 2),)))
    assert BaselineCluster(world).free_nodes.vectors.amounts.tolist() == [[8], [0]]
