"""Who is where, as far as relations ask: pods counted per relation and domain, with undo, beside `Room`.

One more pod at a time, it asks what a scheduler that knows no future would ask, and what the pods placed so far need of
it; so any order of placements that it allows ends in a state that `Relation` allows. Letters of docs/model.md: B pods
that only carry a relation, M pods that are only counted by it, S pods that are both; all three new.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from solver.problem import Gang, Problem, Relation

NOWHERE = -1
"""Stands for the nodes outside a relation's partition."""

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Members = tuple[int, int, int]
"""New pods in one domain: B, M, S."""


class Related(Protocol):
    """What a role says of relations (`Role`, `ShapeRole`)."""

    @property
    def bears(self) -> tuple[int, ...]: ...

    @property
    def matches(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Crowd:
    """The pods of one relation in one domain. matched, bearing: that stand there whatever is planned. B, M, S: new
    ones."""

    matched: int = 0
    bearing: int = 0
    B: int = 0
    M: int = 0
    S: int = 0

    @property
    def counted(self) -> int:
        return self.matched + self.M + self.S

    @property
    def anchors(self) -> int:
        """Counted pods beside which others may come for sure."""
        return self.matched + self.M


class Standing:
    """What the pods that are there already mean for each relation. Shared by all `Neighbours` of a problem; nothing in
    it changes but what it remembers.

    only: on a cluster that holds nothing but the running pods of this gang.
    """

    def __init__(self, problem: Problem, only: Gang | None = None) -> None:
        self.relations = problem.relations
        self.nodes = len(problem.nodes)
        self.at = _partitions(problem.relations)
        self.matched: list[dict[int, int]] = [{} for _ in self.relations]
        self.bearing: list[dict[int, int]] = [{} for _ in self.relations]
        self._splits: dict[tuple[int, int], tuple[Ints, Ints, bool]] = {}
        if only is None:
            self._count_others(problem)
        for gang in problem.gangs if only is None else (only,):
            self._count(gang)

    def split(self, rho: int, h: int, nodes: Ints) -> tuple[Ints, Ints, bool]:
        """(domains of the relation that these nodes are in, the other ones, whether a node is in none). h: names the
        nodes."""
        key = (id(self.at[rho]), h)
        if key not in self._splits:
            inside = np.unique(self.at[rho][nodes])
            domains = inside[inside != NOWHERE]
            self._splits[key] = (
                domains,
                np.setdiff1d(np.arange(len(self.relations[rho].present)), domains),
                len(domains) < len(inside),
            )
        return self._splits[key]

    def _count_others(self, problem: Problem) -> None:
        """The pods of no gang."""
        for rho, relation in enumerate(problem.relations):
            self.matched[rho] = {d: pods for d, pods in enumerate(relation.present) if pods}
            self.bearing[rho] = {d: pods for d, pods in enumerate(relation.guards) if pods}

    def _count(self, gang: Gang) -> None:
        """The gang's running pods."""
        for p in gang.running:
            for counts, relations in (
                (self.matched, gang.roles[p.role].matches),
                (self.bearing, gang.roles[p.role].bears),
            ):
                for rho in relations:
                    d = int(self.at[rho][p.node])
                    counts[rho][d] = counts[rho].get(d, 0) + p.pods

    def without(self, gone: Iterable[tuple[Related, int, int]]) -> Standing:
        """The same without some of these pods: (role, node, number)."""
        other = copy.copy(self)
        other.matched, other.bearing = (
            [dict(counts) for counts in self.matched],
            [dict(counts) for counts in self.bearing],
        )
        for role, node, pods in gone:
            for counts, relations in ((other.matched, role.matches), (other.bearing, role.bears)):
                for rho in relations:
                    d = int(self.at[rho][node])
                    counts[rho][d] -= pods
                    if not counts[rho][d]:
                        del counts[rho][d]
        return other


def _partitions(relations: tuple[Relation, ...]) -> list[Ints]:
    """Relation -> node -> domain, NOWHERE for None; relations of one partition share the array."""
    known: dict[tuple[int | None, ...], Ints] = {}
    found = []
    for relation in relations:
        if relation.domains not in known:
            known[relation.domains] = np.array([NOWHERE if d is None else d for d in relation.domains], dtype=np.int64)
        found.append(known[relation.domains])
    return found


class Neighbours:
    """The standing pods and those that were placed since. enforced: the relations that are minded; all of them unless
    said otherwise."""

    def __init__(
        self, problem: Problem, standing: Standing | None = None, enforced: frozenset[int] | None = None
    ) -> None:
        self.standing = standing or Standing(problem)
        self.enforced = frozenset(range(len(problem.relations))) if enforced is None else enforced
        self._new: dict[int, dict[int, Members]] = {}
        self._log: list[tuple[int, int, int, Members]] = []

    def copy(self) -> Neighbours:
        """The same, to be changed apart from this one. It cannot undo what was placed before."""
        other = object.__new__(Neighbours)
        other.standing, other.enforced = self.standing, self.enforced
        other._new = {rho: dict(domains) for rho, domains in self._new.items()}
        other._log = []
        return other

    def without(self, gone: Iterable[tuple[Related, int, int]]) -> Neighbours:
        """The same pods but some that stood there before: (role, node, number). Those that were placed since are taken
        back by `add`."""
        other = self.copy()
        other.standing = self.standing.without(gone)
        return other

    def only(self, enforced: frozenset[int]) -> Neighbours:
        """The same pods; only some relations are minded."""
        other = self.copy()
        other.enforced = self.enforced & enforced
        return other

    def relations(self, role: Related) -> list[int]:
        """Those that the role carries or is counted by, ascending."""
        return sorted(self.enforced.intersection((*role.bears, *role.matches)))

    def crowd(self, rho: int, d: int) -> Crowd:
        return Crowd(
            self.standing.matched[rho].get(d, 0),
            self.standing.bearing[rho].get(d, 0),
            *self._new.get(rho, {}).get(d, (0, 0, 0)),
        )

    def occupied(self, rho: int) -> list[int]:
        """The domains that hold any of the relation's pods, NOWHERE left out."""
        return sorted({*self.standing.matched[rho], *self.standing.bearing[rho], *self._new.get(rho, {})} - {NOWHERE})

    def crowds(self, rho: int) -> Iterator[tuple[int, Crowd]]:
        for d in self.occupied(rho):
            yield d, self.crowd(rho, d)

    def counted(self, rho: int) -> Ints:
        """Domain -> pods that the relation counts."""
        return self._dense(rho, lambda crowd: crowd.counted)

    def floor(self, rho: int, counted: Ints) -> int:
        """The count from which the skew of an even relation is measured."""
        enough = len(counted) >= self.standing.relations[rho].least_domains
        return int(counted.min()) if enough and len(counted) else 0

    def _dense(self, rho: int, figure: Callable[[Crowd], int]) -> Ints:
        found = np.zeros(len(self.standing.relations[rho].present), dtype=np.int64)
        for d, crowd in self.crowds(rho):
            found[d] = figure(crowd)
        return found

    def add(self, role: Related, node: int, pods: int, stamp: int) -> None:
        """`pods` more of the role (less, where negative) on a node. stamp: a number that does not fall from call to
        call, for `undo`."""
        for rho in sorted({*role.bears, *role.matches}):
            bears, matches = rho in role.bears, rho in role.matches
            one: Members = (int(bears and not matches), int(matches and not bears), int(bears and matches))
            change = (one[0] * pods, one[1] * pods, one[2] * pods)
            d = int(self.standing.at[rho][node])
            self._change(rho, d, change)
            self._log.append((stamp, rho, d, change))

    def _change(self, rho: int, d: int, change: Members) -> None:
        inside = self._new.setdefault(rho, {})
        b, m, s = inside.get(d, (0, 0, 0))
        after = (b + change[0], m + change[1], s + change[2])
        if any(after):
            inside[d] = after
        else:
            inside.pop(d, None)

    def undo(self, stamp: int) -> None:
        """Take back everything added with this stamp or a later one."""
        while self._log and self._log[-1][0] >= stamp:
            _, rho, d, (b, m, s) = self._log.pop()
            self._change(rho, d, (-b, -m, -s))

    def open_to(self, role: Related, among: frozenset[int] | None = None) -> Mask:
        """Node -> whether one more pod of the role may come there now. among: mind only these relations."""
        relations = [rho for rho in self.relations(role) if among is None or rho in among]
        found: Mask = np.ones(self.standing.nodes, dtype=np.bool_)
        for rho in relations:
            domains, outside = _OPEN[self.standing.relations[rho].kind](
                self, rho, rho in role.bears, rho in role.matches
            )
            found &= np.append(domains, outside)[self.standing.at[rho]]
        return found

    def cap(self, role: Related, slots: Ints) -> Ints:
        """No more pods of the role than this ever come to each node: its slots, less what `apart` forbids whatever
        comes later."""
        for rho in self.relations(role):
            if self.standing.relations[rho].kind != "apart":
                continue
            bears, matches = rho in role.bears, rho in role.matches
            domains, _ = _apart(self, rho, bears, matches)
            slots = np.where(np.append(domains, True)[self.standing.at[rho]], slots, 0)
            if bears and matches:
                slots = np.where(self.standing.at[rho] == NOWHERE, slots, np.minimum(slots, 1))
        return slots

    def most(self, role: Related, h: int, nodes: Ints) -> int:
        """No more new pods of the role than this ever come under domain h, which has these nodes, as long as no others
        come elsewhere."""
        found = len(self.standing.at[0]) << 20
        for rho in self.relations(role):
            relation, bears, matches = self.standing.relations[rho], rho in role.bears, rho in role.matches
            inside, outside, free = self.standing.split(rho, h, nodes)
            if relation.kind == "apart" and bears and matches and not free:
                domains, _ = _apart(self, rho, bears, matches)
                found = min(found, int(domains[inside].sum()))
            if relation.kind == "even" and bears and matches and len(outside):
                counted = self.counted(rho)
                floor = int(counted[outside].min()) if len(counted) >= relation.least_domains else 0
                found = min(found, int(np.maximum(floor + relation.skew - counted[inside], 0).sum()))
        return found

    def faults(self) -> list[tuple[int, int]]:
        """(relation, domain) wherever the new pods break an enforced relation; empty for every state that `open_to` led
        to."""
        return [
            (rho, d)
            for rho in sorted(self.enforced & self._new.keys())
            for d in _FAULTS[self.standing.relations[rho].kind](self, rho)
        ]


Verdict = tuple[Mask, bool]
"""Domain -> whether one more pod may come there; and whether it may come outside all domains."""


def _apart(x: Neighbours, rho: int, bears: bool, matches: bool) -> Verdict:
    """Beside a counted pod none that carries the rule, and beside one that carries it none that it counts."""
    found = np.ones(len(x.standing.relations[rho].present), dtype=np.bool_)
    for d, crowd in x.crowds(rho):
        found[d] = not ((bears and crowd.counted) or (matches and crowd.bearing + crowd.B + crowd.S))
    return found, True


def _together(x: Neighbours, rho: int, bears: bool, matches: bool) -> Verdict:
    """One that carries the rule: beside an anchor; else where others did without one; else, if it is counted itself, as
    the first of all, anywhere.

    One that is only counted, and would be an anchor: anywhere, but first of all where others did without.
    """
    crowds = dict(x.crowds(rho))
    bold = [d for d, crowd in crowds.items() if crowd.S + crowd.B and not crowd.anchors]
    if not bears:
        found = np.full(len(x.standing.relations[rho].present), not bold)
        found[bold] = True
        return found, True
    anchored = [d for d, crowd in crowds.items() if crowd.anchors]
    found = np.full(len(x.standing.relations[rho].present), matches and not anchored and not bold)
    found[anchored or bold] = True
    return found, False


def _even(x: Neighbours, rho: int, bears: bool, matches: bool) -> Verdict:
    """counted + [it is counted itself] <= floor + skew, for a pod that carries the rule and for one that joins new pods
    that do."""
    counted = x.counted(rho)
    within = counted + int(matches) <= x.floor(rho, counted) + x.standing.relations[rho].skew
    if bears:
        return within, False
    bound = x._dense(rho, lambda crowd: crowd.B + crowd.S) > 0
    return within | ~bound, True


_OPEN: Mapping[str, Callable[[Neighbours, int, bool, bool], Verdict]] = {
    "apart": _apart,
    "together": _together,
    "even": _even,
}


def _broken_apart(x: Neighbours, rho: int) -> Iterator[int]:
    """Two different pods, one of which carries the rule and the other is counted, at least one of them new."""
    for d, c in x.crowds(rho):
        bearing = c.bearing + c.B + c.S
        if (c.B and c.counted) or (c.M and bearing) or (c.S and (c.counted > 1 or bearing > 1)):
            yield d


def _broken_together(x: Neighbours, rho: int) -> Iterator[int]:
    """New pods that carry the rule without an anchor, where there is one elsewhere, none of them is counted, or they
    are in several domains."""
    crowds = dict(x.crowds(rho))
    anchored = any(c.anchors for c in crowds.values())
    bold = [d for d, c in crowds.items() if c.B + c.S and not c.anchors]
    yield from (d for d in bold if anchored or len(bold) > 1 or not crowds[d].S)
    if _outside(x, rho):
        yield NOWHERE


def _broken_even(x: Neighbours, rho: int) -> Iterator[int]:
    counted = x.counted(rho)
    most = x.floor(rho, counted) + x.standing.relations[rho].skew
    yield from (d for d, c in x.crowds(rho) if c.B + c.S and c.counted > most)
    if _outside(x, rho):
        yield NOWHERE


def _outside(x: Neighbours, rho: int) -> int:
    """New pods that carry the rule on nodes outside the partition."""
    b, _, s = x._new.get(rho, {}).get(NOWHERE, (0, 0, 0))
    return b + s


_FAULTS: Mapping[str, Callable[[Neighbours, int], Iterator[int]]] = {
    "apart": _broken_apart,
    "together": _broken_together,
    "even": _broken_even,
}


def whoever_minds(problem: Problem) -> Neighbours | None:
    """The neighbours of a problem with relations; None where there are none, so that nothing is asked."""
    return Neighbours(problem) if problem.relations else None
