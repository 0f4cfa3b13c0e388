"""subGroupPolicy of bare PodGroups against Volcano's rule, by trying every choice of subgroups, pods and domains in
clusters of a few nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.repositories import compile_pod_group, group_pods, pod_group, subgroup_policy


@dataclass(frozen=True)
class World:
    """parts: (pods, GPUs of each) of each subgroup, none with fewer pods than `ready`. hard: each inside one of the
    nodes, which hold `gpus`."""

    parts: tuple[tuple[int, int], ...]
    ready: int
    wanted: int
    minimum: int
    nodes: int
    gpus: int
    hard: bool


@st.composite
def worlds(draw: st.DrawFn) -> World:
    ready = draw(st.integers(1, 3))
    part = st.tuples(st.integers(ready, 4), st.integers(1, 3))
    parts = draw(
        st.one_of(
            st.lists(part, min_size=1, max_size=3),
            st.tuples(part, st.integers(1, 3)).map(lambda alike: [alike[0]] * alike[1]),
        )
    )
    return World(
        tuple(parts),
        ready,
        draw(st.integers(0, len(parts))),
        draw(st.integers(0, sum(number for number, _ in parts))),
        draw(st.integers(1, 3)),
        draw(st.integers(2, 6)),
        draw(st.booleans()),
    )


def startable(world: World, part: int, room: tuple[int, ...], ready: int = 0, total: int = 0) -> bool:
    """Whether the subgroups from `part` on can be started in the room so that enough are ready and the gang has its
    minimum."""
    if part == len(world.parts):
        return ready >= world.wanted and total >= max(1, world.minimum)
    number, gpus = world.parts[part]
    placed = (
        (split, sum(split))
        for some in range(world.ready, number + 1)
        for split in splits(some, world.nodes, world.hard)
    )
    rest = ((tuple(free - k * gpus for free, k in zip(room, split, strict=True)), some) for split, some in placed)
    return startable(world, part + 1, room, ready, total) or any(
        min(left) >= 0 and startable(world, part + 1, left, ready + 1, total + some) for left, some in rest
    )


def splits(pods: int, nodes: int, whole: bool) -> Iterator[tuple[int, ...]]:
    """The ways to lay pods on nodes, all on one where they must be."""
    if nodes == 1:
        yield (pods,)
        return
    for first in (0, pods) if whole else range(pods + 1):
        for rest in splits(pods - first, nodes - 1, whole):
            yield (first, *rest)


@settings(max_examples=40)
@given(worlds())
def test_a_pod_group_starts_where_volcano_would_start_it(world: World) -> None:
    mode = "hard" if world.hard else "soft"
    documents = [pod_group(world.minimum, subgroup_policy(world.ready, world.wanted, mode))]
    for name, (number, gpus) in zip("abc", world.parts, strict=False):
        documents += group_pods(name, number, gpus=gpus)
    outcome = compile_pod_group(world.nodes, world.gpus, *documents)
    (decided,) = outcome.decisions
    can = startable(world, 0, (world.gpus,) * world.nodes)
    if decided.action == "wait":
        assert outcome.problem is not None
        assert not can or (outcome.problem.gangs[0].over_constrained and not decided.never)
        return
    held: list[Counter[str]] = []
    for part in decided.gang.subgroups:
        held.append(Counter())
        for name in part.roles:
            held[-1].update(decided.pods.get(name, {}))
    assert can
    assert all(not on or on.total() >= world.ready for on in held)
    assert all(len(on) <= 1 for on in held) or not world.hard
    assert sum(on.total() >= world.ready for on in held) >= world.wanted
    assert decided.pod_count >= world.minimum
