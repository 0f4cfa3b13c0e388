"""The one reference of what queues may hold, deserve and are measured by: brute force, the oracle and the differential
say what their queues say, and ask here. In fractions, and without a line of the solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from itertools import permutations
from operator import add
from typing import Generic, TypeVar

import numpy as np

Q = TypeVar("Q", bound=int | str)
Amounts = Mapping[str, int]
"""Resource -> whole units."""


@dataclass(frozen=True)
class QueueTerms(Generic[Q]):
    """What a queue says; a resource of which it says nothing is left out. asked: by its jobs with all replicas, what
    they hold among it; None without jobs."""

    parent: Q | None
    weight: int
    guarantee: Amounts
    deserved: Amounts
    capability: Amounts
    asked: Amounts | None


@dataclass(frozen=True)
class ShareMeasure:
    """base + the most over the resources of held / per, divided by the weight."""

    per: Amounts
    weight: Fraction
    base: int = 0

    def share(self, held: Amounts) -> Fraction:
        parts = (Fraction(held.get(r, 0), amount) for r, amount in self.per.items() if amount)
        return self.base + max(parts, default=Fraction(0)) / self.weight


@dataclass(frozen=True)
class QueueRules(Generic[Q]):
    """plugin: "capacity", "proportion" or neither. hierarchical: capacity counts parents. others_remain: the cluster
    has what nobody asks for, so that proportion always has something left."""

    queues: Mapping[Q, QueueTerms[Q]]
    totals: Amounts
    plugin: str
    hierarchical: bool = False
    others_remain: bool = False

    def path(self, name: Q) -> list[Q]:
        """The queue, and with a hierarchy those above it."""
        parent = self.queues[name].parent
        return [name, *(self.path(parent) if self.hierarchical and parent is not None else [])]

    def below(self, name: Q) -> list[Q]:
        """The queue, and with a hierarchy those below it."""
        return [other for other in self.queues if name in self.path(other)]

    def guarantee(self, name: Q, r: str) -> int:
        return self.queues[name].guarantee.get(r, 0)

    def real_capability(self, name: Q, r: str) -> int | None:
        """What the guarantees of others leave of a queue's capability; None for no limit."""
        limits = [self.queues[q].capability[r] for q in self.path(name) if r in self.queues[q].capability][:1]
        inside, siblings = self._shared_among_siblings(name, r)
        if inside is not None:
            guaranteed = sum(self.guarantee(q, r) for q in siblings)
            limits.append(max(0, inside - guaranteed) + self.guarantee(name, r))
        return min(limits, default=None)

    def _shared_among_siblings(self, name: Q, r: str) -> tuple[int | None, list[Q]]:
        """What the queue and its siblings may hold together, and who they are."""
        if not self.hierarchical:
            return self.totals[r], list(self.queues)
        parent = self.queues[name].parent
        siblings = [q for q, terms in self.queues.items() if terms.parent == parent]
        return None if parent is None else self.real_capability(parent, r), siblings

    def deserved(self, name: Q, r: str) -> int:
        """What capacity makes of the declared amounts; 0 where nothing is said."""
        said, most = self.queues[name].deserved.get(r, 0), self.real_capability(name, r)
        return max(said if most is None else min(said, most), self.guarantee(name, r))

    def deserves_something(self, name: Q) -> bool:
        return any(self.deserved(name, r) for r in self.totals if r != "pods")

    @cached_property
    def asked(self) -> dict[Q, Amounts]:
        return {name: terms.asked for name, terms in self.queues.items() if terms.asked is not None}

    @cached_property
    def proportion_shares(self) -> dict[Q, dict[str, Fraction]]:
        """Queue with jobs -> its share of each resource by weight, pods aside."""
        flat, names = replace(self, hierarchical=False), [r for r in self.totals if r != "pods"]
        wishes = {
            name: Wish(
                self.queues[name].weight,
                [asked.get(r, 0) for r in names],
                [flat.real_capability(name, r) or 0 for r in names],
                [self.guarantee(name, r) for r in names],
            )
            for name, asked in self.asked.items()
        }
        found = proportion_shares(names, [self.totals[r] for r in names], wishes, others_remain=self.others_remain)
        return {name: dict(zip(names, shares, strict=True)) for name, shares in found.items()}

    @cached_property
    def fair_shares(self) -> dict[Q, Fraction]:
        """Queue with jobs -> its dominant share were jobs divisible and nodes one pool: all grow by weight, in the
        proportions of what they ask for, until they have it or something that they need is used up."""
        totals = {r: total for r, total in self.totals.items() if total}
        parts = {q: {r: Fraction(asked.get(r, 0), totals[r]) for r in totals} for q, asked in self.asked.items()}
        top = {q: max(of.values(), default=Fraction(0)) for q, of in parts.items()}
        level, left = dict.fromkeys(parts, Fraction(0)), dict.fromkeys(totals, Fraction(1))
        growing = {q for q, share in top.items() if share}
        while growing:
            speed = {q: Fraction(self.queues[q].weight) for q in growing}
            drain = {r: sum(speed[q] * parts[q][r] / top[q] for q in growing) for r in totals}
            ends = [left[r] / rate for r, rate in drain.items() if rate]
            step = min(*((top[q] - level[q]) / speed[q] for q in growing), *ends)
            level |= {q: level[q] + step * speed[q] for q in growing}
            left = {r: left[r] - step * drain[r] for r in totals}
            empty = {r for r, amount in left.items() if not amount}
            growing = {q for q in growing if level[q] < top[q] and not any(parts[q][r] for r in empty)}
        return level

    def entitlement(self, name: Q, r: str) -> int | None:
        """What a queue may hold before it borrows; None where nothing is said."""
        terms, guarantee = self.queues[name], self.guarantee(name, r)
        if self.plugin == "proportion":
            share = self.proportion_shares.get(name, {}).get(r, Fraction(0))
            return None if r == "pods" else max(int(share), guarantee)
        if self.plugin != "capacity":
            return max(int(self.fair_shares.get(name, 0) * self.totals[r]), guarantee)
        if not self.deserves_something(name):
            is_inner = self.hierarchical and any(other.parent == name for other in self.queues.values())
            return None if is_inner else guarantee
        if r not in terms.deserved and r not in terms.guarantee:
            return None
        return max(int(self._scale(r) * self.deserved(name, r)), guarantee)

    def _scale(self, r: str) -> Fraction:
        """The most t <= 1 for which sum_q min(asked_q, t * deserved_q) is no more than there is of r."""
        due = {q: self.deserved(q, r) for q in self.asked}
        wants = {q: asked.get(r, 0) for q, asked in self.asked.items()}
        low, left = Fraction(0), Fraction(self.totals[r])
        corners = sorted({Fraction(1), *(min(Fraction(1), Fraction(wants[q], d)) for q, d in due.items() if d)})
        for corner in corners:
            rate = sum(d for q, d in due.items() if wants[q] > low * d)
            if rate * (corner - low) > left:
                return low + left / rate
            low, left = corner, left - rate * (corner - low)
        return Fraction(1)

    def measure(self, name: Q) -> ShareMeasure:
        """With capacity by what it deserves; one that deserves nothing, and any without, by the cluster and its
        weight."""
        weight = Fraction(self.queues[name].weight)
        if self.plugin != "capacity":
            return ShareMeasure(self.totals, weight)
        if self.deserves_something(name):
            return ShareMeasure({r: self.deserved(name, r) for r in self.totals}, Fraction(1))
        return ShareMeasure(self.totals, weight, 1)


@dataclass(frozen=True)
class Wish:
    """Of a queue with jobs, per resource: what it asks for, may hold and is guaranteed."""

    weight: int
    asked: Sequence[int]
    limit: Sequence[int]
    guarantee: Sequence[int]


def proportion_shares(
    names: Sequence[str], totals: Sequence[int], wishes: Mapping[Q, Wish], *, others_remain: bool = False
) -> dict[Q, list[Fraction]]:
    """Queue -> its share of each resource in rounds: each unmet queue gets its weight's part of what is left, up to
    what it asks for and may hold. Floating point and units are those of Volcano's plugin, without its tolerance. What
    all gain is added up in any order, so the most that it may come to counts."""
    unit = np.array([1.0 if name in ("cpu", "memory") else 1000.0 for name in names])
    left, share = np.array(totals) * unit, {q: np.zeros(len(names)) for q in wishes}
    hungry = list(wishes)
    while hungry and (others_remain or (left >= 0.1).any()):
        weights, gains, before = sum(wishes[q].weight for q in hungry), [], left
        for q in list(hungry):
            wish, old = wishes[q], share[q]
            most = np.minimum(np.array(wish.asked), np.array(wish.limit)) * unit
            share[q] = np.maximum(
                np.minimum(old + left * (wish.weight / weights), most), np.array(wish.guarantee) * unit
            )
            gains.append(share[q] - old)
            if not gains[-1].any() or (np.array(wish.asked) * unit - share[q] < 0.1).all():
                hungry.remove(q)
        left = np.maximum(0.0, before - np.array([_most(list(column)) for column in zip(*gains, strict=True)]))
        if (left == before).all():
            break
    return {q: [Fraction(float(a)) / int(u) for a, u in zip(own, unit, strict=True)] for q, own in share.items()}


def _most(gains: list[float]) -> float:
    some = [gain for gain in gains if gain]
    if len(some) > 8:
        return float(sum(map(Fraction, some))) * (1 + len(some) * 2.0**-52)
    return max(reduce(add, order, 0.0) for order in (permutations(some) if any(gain % 1 for gain in some) else [some]))
