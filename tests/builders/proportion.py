"""Shares by weight as Volcano's plugin proportion counts them: its floating point and units, without tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import permutations
from operator import add
from typing import TypeVar

import numpy as np

Q = TypeVar("Q", int, str)


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
    """Queue -> its share of each resource, in rounds: each unmet queue gets its weight's part of what is left, up to
    what it asks for and may hold. What all gain is added up in any order, so the most that it may come to counts.
    others_remain: the cluster has what nobody asks for, so that something is always left."""
    unit = np.array([1.0 if name in ("cpu", "memory") else 1000.0 for name in names])
    left, share = np.array(totals) * unit, {q: np.zeros(len(names)) for q in wishes}
    hungry = sorted(wishes)
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
