"""The subgroups of bare PodGroups: which of them a gang needs, with how many pods, and which must each stay in one
domain.

Volcano (reference: 4.2 and 4.8): a subgroup is ready with `subGroupSize` of its pods, `minSubGroups` of a policy have
to be, and all pods of one sit inside one domain of its tier. The problem's subgroups have parts of one size only. So a
subgroup that may start with fewer pods than it has is said by the minima of its roles, and its domain by a relation; of
subgroups that are alike the first ones are needed, those that run before all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compiler.lower.eligibility import requirement
from compiler.lower.pod_rules import Relations
from compiler.lower.topology import Tiers, hypernodes, leaves
from compiler.specs import GangSpec, HyperNodeSpec, NodeSpec, SubgroupSpec, TopologySpec
from solver.problem import Relation

Running = Mapping[tuple[int, str], int]
"""(Role, node name) -> pods."""

ANYWHERE = TopologySpec("soft")


@dataclass(frozen=True, slots=True)
class Parts:
    """subgroups: as in the spec, index by index. least: role -> its minimum. minimum: of the gang. whole: indices of
    subgroups that must be in one domain each, which `subgroups` does not say. narrowed: the gang is held to more than
    Volcano holds it to."""

    subgroups: tuple[SubgroupSpec, ...]
    minimum: int
    least: Mapping[int, int] = field(default_factory=dict)
    whole: tuple[int, ...] = ()
    narrowed: bool = False


def settled(spec: GangSpec, running: Running) -> Parts:
    """What a gang's subgroups ask for. Of other kinds than PodGroup they are settled already."""
    parts = Parts(spec.subgroups, spec.minimum)
    for path in dict.fromkeys(part.path for part in spec.subgroups if part.ready):
        parts = _policy(spec, running, parts, [s for s, part in enumerate(spec.subgroups) if part.path == path])
    return parts


def _policy(spec: GangSpec, running: Running, parts: Parts, mine: Sequence[int]) -> Parts:
    """One policy's subgroups, indices into the gang's. Those with too few pods to be ready count only where there are
    no others (GP363 warns)."""
    first, size = spec.subgroups[mine[0]], {s: spec.subgroups[s].size for s in mine}
    able = [s for s in mine if size[s] >= first.ready]
    if first.wanted < len(able) and _countable(spec, mine):
        none = {s: replace(spec.subgroups[s], minimum=0) for s in mine}
        return replace(_with(parts, none), minimum=max(parts.minimum, first.wanted * first.ready))
    roles = {s: _roles(spec, s) for s in mine}
    runs = {s: sum(pods for (t, _), pods in running.items() if t in roles[s]) for s in mine}
    needed = [*sorted(able, key=lambda s: -runs[s]), *(s for s in mine if s not in able)][: first.wanted]
    narrowed = len(needed) < len(able) and (any(runs.values()) or len({_kind(spec, s) for s in able}) > 1)
    made, least, whole = {}, dict(parts.least), list(parts.whole)
    for s in mine:
        made[s] = part = _part(spec.subgroups[s], needed=s in needed)
        if s in needed:
            for t, pods in _shared_out(spec, roles[s], min(first.ready, size[s])):
                least[t] = max(least.get(t, 0), pods)
        if size[s] > first.ready:
            narrowed |= (
                len(roles[s]) > 1 if s in needed else part.size > 1 and parts.minimum > first.wanted * first.ready
            )
        if part.topology is ANYWHERE and spec.subgroups[s].topology.mode == "hard":
            whole.append(s)
    return replace(_with(parts, made), least=least, whole=tuple(whole), narrowed=parts.narrowed or narrowed)


def _part(part: SubgroupSpec, *, needed: bool) -> SubgroupSpec:
    """A needed subgroup grows pod by pod above its roles' minima; another one has none of its pods or is ready: it
    grows by what makes it ready, or, where that does not divide it, starts as a whole."""
    if part.size <= part.ready:
        return replace(part, minimum=int(needed))
    unit = 1 if needed else part.ready
    return replace(part, minimum=0) if part.size % unit else replace(part, size=unit, minimum=0, topology=ANYWHERE)


def _countable(spec: GangSpec, mine: Sequence[int]) -> bool:
    """Whether the gang's pods tell how many of these subgroups have started: all have the size that makes them ready,
    and no pods are outside."""
    inside = {name for s in mine for name in spec.subgroups[s].roles}
    return all(spec.subgroups[s].size == spec.subgroups[s].ready for s in mine) and all(
        role.name in inside for role in spec.roles
    )


def _roles(spec: GangSpec, s: int) -> list[int]:
    return [t for t, role in enumerate(spec.roles) if role.name in spec.subgroups[s].roles]


def _shared_out(spec: GangSpec, roles: Sequence[int], pods: int) -> Iterator[tuple[int, int]]:
    """(role, how many of the pods), the first roles taking most."""
    for t in roles:
        some = min(pods, spec.roles[t].replicas)
        pods -= some
        yield t, some


def _kind(spec: GangSpec, s: int) -> object:
    """Equal for subgroups that may stand for one another; with rules about other pods none may."""
    mine = [spec.roles[t] for t in _roles(spec, s)]
    if any(role.pod.rules for role in spec.roles):
        return s
    rows = (
        (tuple(sorted(r.pod.requests.items())), r.pod.vgpus, requirement(r.pod), r.replicas, r.minimum) for r in mine
    )
    return frozenset(Counter(rows).items())


def _with(parts: Parts, made: Mapping[int, SubgroupSpec]) -> Parts:
    return replace(parts, subgroups=tuple(made.get(s, part) for s, part in enumerate(parts.subgroups)))


def kept_whole(
    bonds: Relations,
    gangs: Sequence[GangSpec],
    parts: Sequence[Parts],
    tree: Sequence[HyperNodeSpec],
    nodes: Sequence[NodeSpec],
) -> tuple[Relations, dict[int, tuple[int, int]]]:
    """The relations, and after them one for each subgroup that must be `whole`: its pods share a domain of its tier.
    Second result: relation -> (gang, subgroup)."""
    tiers = Tiers(tree)
    made, words, ties, places = list(bonds.relations), list(bonds.words), dict(bonds.ties), {}
    known: dict[int, Relation] = {}
    for j, (spec, found) in enumerate(zip(gangs, parts, strict=True)):
        for s in found.whole:
            tier = tiers.topology(spec.subgroups[s].topology).tier
            if tier >= tiers.whole:
                continue
            if tier not in known:
                domains = _domains(tree, nodes, tier)
                known[tier] = Relation(
                    "together", domains, (0,) * (max((d for d in domains if d is not None), default=-1) + 1), own=True
                )
            places[len(made)] = j, s
            for t in _roles(spec, s):
                bears, matches = ties.get((j, t), ((), ()))
                ties[j, t] = (*bears, len(made)), (*matches, len(made))
            made.append(known[tier])
            words.append(f"inside one tier-{tier} domain")
    if not places:
        return bonds, places
    return Relations(tuple(made), tuple(words), ties, (*bonds.guards, *(() for _ in places))), places


def _domains(tree: Sequence[HyperNodeSpec], nodes: Sequence[NodeSpec], tier: int) -> tuple[int | None, ...]:
    """Node -> its highest domain of a tier up to this one, numbered by their first nodes."""
    made, leaf = hypernodes(tree), leaves(tree)

    def domain(h: int | None) -> int | None:
        if h is None or made[h].tier > tier:
            return None
        while (parent := made[h].parent) is not None and made[parent].tier <= tier:
            h = parent
        return h

    found = [domain(leaf.get(node.name)) for node in nodes]
    number = {h: d for d, h in enumerate(dict.fromkeys(h for h in found if h is not None))}
    return tuple(None if h is None else number[h] for h in found)
