"""Stage B for gangs whose pods are alike: those of one kind are placed anew together in the room that everybody else
leaves, by the model of pieces (`solver.models.identical_pods`), first inside each domain, then in two domains at
once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from solver.mip.engine import FEASIBILITY, solve_model
from solver.models import identical_pods
from solver.models.identical_pods import Known, Party, Region, Slots
from solver.models.sets import Sets
from solver.options import Options
from solver.placement import bounds
from solver.problem import Ask, Placement
from solver.semantics.gang_classes import Shape
from solver.semantics.placement_cost import span
from solver.semantics.placements import Placements, merged
from solver.semantics.topology import ROOT
from solver.state.room import Room

LARGEST = 800
"""Variables up to which a model of pieces is solved: a second or two."""

WORK = 2_000
"""Variables of all models together that are solved: the stage then takes seconds, however many kinds of pods and
domains there are."""

RELAXED = 6_000
"""Variables up to which its relaxation is: tenths of a second."""

NODES = 20
"""Branch-and-bound nodes of one model; most are proved at the root."""

MODELS = 40
"""Sets of domains that are looked at for one kind of pods."""

VAIN = 2
"""Models, one after another, that may bring nothing before no more are solved for one kind of pods."""

Kind = tuple[Ask, frozenset[int]]
"""What one of the alike pods takes, and the kinds of nodes open to it."""


@dataclass(frozen=True, slots=True)
class Together:
    """groups: kind of pods -> its gangs. least: kind -> these gangs cost no less together. others: gangs of
    no kind. spread: nor do all gangs together."""

    groups: Mapping[Kind, Mapping[int, Party]]
    least: Mapping[Kind, int]
    others: frozenset[int]
    spread: int

    @property
    def uniform(self) -> bool:
        """Whether all gangs are of one kind."""
        return len(self.groups) == 1 and not self.others


def together(s: Sets, shapes: Mapping[int, Shape], options: Options) -> Together:
    """What is known of these gangs, wherever they are."""
    groups, alone = grouped(s, shapes), {j: bounds.span(s, shape) for j, shape in shapes.items()}
    found = {
        kind: max(_least(s, kind, parties, options), sum(alone[j] for j in parties)) for kind, parties in groups.items()
    }
    others = frozenset(alone.keys() - {j for parties in groups.values() for j in parties})
    return Together(groups, found, others, sum(found.values()) + sum(alone[j] for j in others))


def improved(
    s: Sets, shapes: Mapping[int, Shape], placements: Placements, known: Together, options: Options
) -> Placements:
    """Placements that are spread no more, kind after kind."""
    room, found, work = s.room_beside(placements), dict(placements), WORK
    for kind, parties in known.groups.items():
        work = Alike(s, shapes, kind, parties, room, found, options, work).improve(known.least[kind])
    return found


def kind_of(s: Sets, shape: Shape) -> Kind | None:
    """Of what kind the pods are that make up most of the gang; None for a gang that relations, subgroups, cells or
    running pods bind.

    The pods of its other roles follow those to their leaves.
    """
    if (
        shape.fixed
        or shape.related
        or shape.subgroups
        or not shape.least
        or any(role.ask.portions for role in shape.roles)
    ):
        return None
    weight: dict[Kind, float] = {}
    for role in shape.roles:
        share = max((a * role.need / t for a, t in zip(role.request, s.totals, strict=True) if t), default=0.0)
        weight[role.ask, role.kinds] = weight.get((role.ask, role.kinds), 0.0) + share
    return max(weight, key=lambda kind: weight[kind])


def grouped(s: Sets, shapes: Mapping[int, Shape]) -> dict[Kind, dict[int, Party]]:
    """Kind of pods -> the gangs of such pods; none where there is no topology, in which nobody is near or far."""
    if not s.tree.tiers:
        return {}
    known = {shape: kind_of(s, shape) for shape in dict.fromkeys(shapes.values())}
    found: dict[Kind, dict[int, Party]] = {}
    for j, shape in sorted(shapes.items()):
        if (kind := known[shape]) is not None:
            found.setdefault(kind, {})[j] = _party(s, j, shape, kind)
    return found


def _party(s: Sets, j: int, shape: Shape, kind: Kind) -> Party:
    pods = sum(shape.roles[t].need for t in _of_kind(shape, kind))
    level = None
    if shape.tier is not None and shape.tier <= s.tree.top:
        level = max(level for level, tier in enumerate(s.tree.tiers) if tier <= shape.tier)
    return Party(j, pods, level, tuple(max(1, bounds.number(pods, domains)) for domains in s.reach(*kind)))


def _of_kind(shape: Shape, kind: Kind) -> list[int]:
    """The roles whose pods are of this kind."""
    return [t for t, role in enumerate(shape.roles) if (role.ask, role.kinds) == kind and role.need]


def slots_of(s: Sets, room: Room, kind: Kind, leaves: Iterable[int], most: int) -> Slots:
    """How many pods of the kind these leaves hold, no leaf more than `most`."""
    ask, kinds = kind
    fits = np.where(s.tree.open_to(kinds), room.slots(ask), 0)
    per_leaf = np.bincount(s.tree.leaf_of - ROOT, weights=fits, minlength=len(s.problem.hypernodes) - ROOT)
    found: dict[Region, dict[int, int]] = {}
    for leaf in leaves:
        if number := min(most, int(per_leaf[leaf - ROOT])):
            found.setdefault(_region(s, leaf), {})[leaf] = number
    return Slots(found, s.tree.weights)


def _region(s: Sets, leaf: int) -> Region:
    """Nodes below no domain of a level, or outside the topology, are closed to gangs that such a domain must hold."""
    own = math.inf if leaf == ROOT else s.problem.hypernodes[leaf].tier
    return Region(
        s.tree.line(None if leaf == ROOT else leaf)[1:],
        frozenset(level for level, tier in enumerate(s.tree.tiers) if own > tier),
    )


def leaves_of(s: Sets) -> list[int]:
    return sorted({ROOT if place.leaf is None else place.leaf for place in s.places})


def _least(s: Sets, kind: Kind, parties: Mapping[int, Party], options: Options) -> int:
    """Together these gangs cost no less, whoever else is there: the model of pieces in the free room, relaxed and
    rounded up.

    Where it is too large, as if all leaves were below one domain, and each gang's own least of the domains above; 0
    where that is too large as well.
    """
    every = list(parties.values())
    slots, above = slots_of(s, s.room(), kind, leaves_of(s), sum(party.pods for party in every)), 0
    if identical_pods.size(every, slots) > RELAXED:
        above = sum(
            weight * (number - 1)
            for party in every
            for weight, number in zip(slots.weights[1:], party.fewest[1:], strict=True)
        )
        slots, every = slots.flat(), [party.flat() for party in every]
    return above + _relaxed(every, slots, options) if identical_pods.size(every, slots) <= RELAXED else above


def _parts(domains: frozenset[int]) -> list[frozenset[int]]:
    """All subsets of one or two domains, but for the empty one."""
    return [frozenset(part) for size in (1, 2) for part in itertools.combinations(sorted(domains), size)]


def _relaxed(parties: list[Party], slots: Slots, options: Options) -> int:
    answer = solve_model(identical_pods.build(parties, slots, {}).model, options, relaxed=True)
    return math.ceil(answer.value - FEASIBILITY) if answer.status == "optimal" else 0


@dataclass
class Alike:
    """The gangs of one kind of pods. room: what is left beside all gangs. placements: of all gangs, changed in place.
    work: variables of models that may be solved yet."""

    s: Sets
    shapes: Mapping[int, Shape]
    kind: Kind
    parties: Mapping[int, Party]
    room: Room
    placements: dict[int, tuple[Placement, ...]]
    options: Options
    work: int

    def improve(self, low: int) -> int:
        """Set of domains after set of domains, as long as that helps; the work that is left. low: these gangs are never
        nearer."""
        asked, vain, improved = set[tuple[int, ...]](), VAIN, True
        while improved:
            improved = False
            for domains in self._sets():
                movers = tuple(j for j in self.parties if not domains or self._domains(j) <= domains)
                if len(asked) == MODELS or not vain or self._spread(self.parties) <= low:
                    return self.work
                if (*sorted(domains), *movers) not in asked:
                    asked.add((*sorted(domains), *movers))
                    better = self._anew(domains, movers)
                    improved = improved or bool(better)
                    vain = VAIN if better else vain if better is None else vain - 1
        return self.work

    def _sets(self) -> Iterator[frozenset[int]]:
        """The domains right above leaves one by one, then two by two, first where gangs could be much nearer; none for
        all of them."""
        if len(self.s.tree.tiers) < 2:
            yield frozenset()
            return
        apart: dict[frozenset[int], int] = {}
        for j in self.parties:
            inside = self._domains(j)
            apart[inside] = apart.get(inside, 0) + self._excess(j)
        above = sorted({self.s.tree.line(None if leaf == ROOT else leaf)[1] for leaf in leaves_of(self.s)})
        for number in (1, 2):
            excess = {
                of: sum(apart.get(part, 0) for part in _parts(of))
                for of in map(frozenset, itertools.combinations(above, number))
            }
            yield from sorted((of for of in excess if excess[of]), key=lambda of: (-excess[of], sorted(of)))

    def _domains(self, j: int) -> frozenset[int]:
        """The domains right above leaves that the gang touches."""
        leaves = (self.s.problem.nodes[p.node].leaf for p in self.placements[j])
        return frozenset(self.s.tree.line(leaf)[1] for leaf in leaves)

    def _excess(self, j: int) -> int:
        return span(self.s.tree, self.placements[j]) - sum(
            w * (m - 1) for w, m in zip(self.s.tree.weights, self.parties[j].fewest, strict=True)
        )

    def _spread(self, gangs: Iterable[int]) -> int:
        return sum(span(self.s.tree, self.placements[j]) for j in gangs)

    def _anew(self, domains: frozenset[int], movers: tuple[int, ...]) -> bool | None:
        """Place the gangs that are in these domains only anew there: whether they are nearer now; None where a bound
        says that they cannot be, or the model is too large."""
        mark, now, known = self.room.mark(), self._spread(movers), {j: self._main(j) for j in movers}
        for j in movers:
            for p in self.placements[j]:
                self.room.put(p.node, self.shapes[j].roles[p.role], -p.pods)
        parties = [self.parties[j] for j in movers]
        leaves = [
            leaf
            for leaf in leaves_of(self.s)
            if not domains or self.s.tree.line(None if leaf == ROOT else leaf)[1] in domains
        ]
        slots = slots_of(self.s, self.room, self.kind, leaves, sum(party.pods for party in parties))
        size = identical_pods.size(parties, slots)
        if size > min(LARGEST, self.work) or _relaxed(parties, slots, self.options) >= now:
            self.room.undo(mark)
            return None
        self.work -= size
        found = self._realised(parties, self._searched(parties, slots, known))
        if found is None or sum(span(self.s.tree, pods) for pods in found.values()) >= now:
            self.room.undo(mark)
            return False
        self.placements.update(found)
        return True

    def _main(self, j: int) -> dict[int, int]:
        """Leaf -> the gang's alike pods there."""
        roles, found = _of_kind(self.shapes[j], self.kind), dict[int, int]()
        for p in self.placements[j]:
            if p.role in roles:
                leaf = int(self.s.tree.leaf_of[p.node])
                found[leaf] = found.get(leaf, 0) + p.pods
        return found

    def _searched(self, parties: list[Party], slots: Slots, known: Known) -> dict[int, dict[int, int]]:
        """Gang -> leaf -> its alike pods, as the model has them."""
        x = identical_pods.build(parties, slots, known)
        answer = solve_model(
            x.model, replace(self.options, max_nodes=min(self.options.max_nodes, NODES)), x.start, quick=True
        )
        return (
            identical_pods.read(x, slots, answer.values)
            if answer.values
            else {j: dict(leaves) for j, leaves in known.items()}
        )

    def _realised(
        self, parties: list[Party], wanted: Mapping[int, Mapping[int, int]]
    ) -> dict[int, tuple[Placement, ...]] | None:
        """Gang -> its pods on nodes, taken from the room: the alike ones as wanted, the others beside them. None where
        those find no room there."""
        found: dict[int, list[Placement]] = {}
        for party in parties:
            shape = self.shapes[party.gang]
            left = {t: shape.roles[t].need for t in _of_kind(shape, self.kind)}
            pods = found[party.gang] = []
            for leaf, number in sorted(wanted[party.gang].items()):
                for t in left:
                    some = min(number, left[t])
                    pods += self._filled(shape, t, self.s.tree.held[leaf], some)
                    left[t], number = left[t] - some, number - some
        for party in parties:
            shape, nodes = (
                self.shapes[party.gang],
                np.concatenate([self.s.tree.held[leaf] for leaf in sorted(wanted[party.gang])]),
            )
            for t, role in enumerate(shape.roles):
                if t not in _of_kind(shape, self.kind):
                    found[party.gang] += self._filled(shape, t, nodes, role.need)
            if sum(p.pods for p in found[party.gang]) < shape.least:
                return None
        return {j: merged(pods) for j, pods in found.items()}

    def _filled(self, shape: Shape, t: int, nodes: np.ndarray, pods: int) -> list[Placement]:
        """As many of these pods as fit on the nodes, the fullest first."""
        role = shape.roles[t]
        fits = np.where(self.s.tree.open_to(role.kinds)[nodes], self.room.slots(role.ask)[nodes], 0)
        order = nodes[np.argsort(fits, kind="stable")]
        taken = self.room.fill(order, np.sort(fits, kind="stable"), role.ask, pods)
        return [
            Placement(t, node, number) for node, number in zip(order.tolist(), taken.tolist(), strict=True) if number
        ]
