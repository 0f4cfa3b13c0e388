"""Which pods a queue may reclaim from others, one by one, as Volcano's plugins proportion and capacity vote."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from solver.problem import Vector
from solver.semantics.eviction_rights import (
    ReclaimLimits,
    contend_without_entitlement,
    queues_to_check,
    reclaim_ancestors,
)
from solver.simulation.volcano.queues import Key, QueueAccounts
from solver.simulation.volcano_configuration import VolcanoScheduler

Claim = tuple[int, Vector]
"""(queue, what a pod of it asks for or holds)."""


class ReclaimRules:
    """Sources: plugins/proportion and plugins/capacity."""

    def __init__(self, scheduler: VolcanoScheduler, accounts: QueueAccounts) -> None:
        self.accounts = accounts
        self._due = tuple(
            tuple((due or None) if r in accounts.compared else None for r, due in enumerate(row))
            for row in accounts.deserved
        )
        self._overuse = bool(scheduler.voters("enabledOverused", ("proportion",)))
        self._reclaimers = scheduler.voters("enablePreemptive", ("proportion", "capacity"))

    def is_overused(self, queue: int) -> bool:
        """Overused of proportion: the queue holds its share of every resource."""
        share, held = self.accounts.shares[queue], self.accounts.held[queue]
        return self._overuse and share is not None and all(s <= h for s, h in zip(share, held, strict=True))

    def may_reclaim(self, queue: int, request: Vector) -> bool:
        """Preemptive: return whether a pod of the queue may reclaim room, by proportion within its share, by capacity
        within the deserved amount of it or a queue above it for one resource."""
        held, opened = self.accounts.held[queue], self.accounts.opened[queue]
        for voter in chain.from_iterable(self._reclaimers):
            most = self.accounts.shares[queue] if voter == "proportion" else self.accounts.real[queue]
            if not opened or most is None or not self.accounts.fits(held, request, most):
                return False
            above = reclaim_ancestors(self.accounts.cluster, queue)
            if voter == "capacity" and not any(self._is_due(q, request) for q in (queue, *above)):
                return False
        return True

    def _is_due(self, queue: int, request: Vector) -> bool:
        rows = zip(self.accounts.held[queue], request, self._due[queue], strict=True)
        return any(due is not None and amount and held + amount <= due for held, amount, due in rows)

    def reclaimable(self, voter: str, home: Claim, pods: Sequence[Claim]) -> list[int]:
        """Return which of these pods proportion or capacity releases, one after the other, for a pod of another queue
        (`home`)."""
        held, found = [[*amounts] for amounts in self.accounts.held], list[int]()
        for at, (queue, request) in enumerate(pods):
            checked = [queue] if voter == "proportion" else queues_to_check(self.accounts.cluster, home[0], queue)
            share = self.accounts.shares[queue] or (0,) * len(request)
            if voter == "proportion":
                goes = any(has > most for has, most in zip(held[queue], share, strict=True))
            else:
                goes = self._has_to_spare(held, home, (queue, request), checked)
            if goes:
                found.append(at)
                for q in checked:
                    held[q] = [has - amount for has, amount in zip(held[q], request, strict=True)]
        return found

    def _has_to_spare(self, held: Sequence[Sequence[int]], home: Claim, pod: Claim, checked: Sequence[int]) -> bool:
        """Reclaimable of capacity: the guarantee is kept, and the queue, with those above it that are checked, holds
        more than it deserves of a resource that the pod holds, or deserves nothing of them."""
        queue, request = pod
        guarantee = self.accounts.cluster.queues[queue].guarantee
        if any(held[queue][r] - amount < (guarantee[r] or 0) for r, amount in enumerate(request)):
            return False
        if contend_without_entitlement(self.accounts.cluster, home[0], queue, self._due, request):
            return False
        asked = frozenset(r for r in self.accounts.compared if home[1][r])
        return all(self._limits(held[q], q, asked).allow(request, "full") for q in checked)

    def _limits(self, held: Sequence[int], queue: int, asked: frozenset[int]) -> ReclaimLimits:
        due = {r: amount for r, amount in enumerate(self._due[queue]) if amount is not None}
        above = {r: max(0, held[r] - amount) for r, amount in due.items()}
        return ReclaimLimits(asked, frozenset(), frozenset(due), frozenset(), above, {})

    def victim_key(self, home: int, queue: int) -> Key:
        """Return the key of a queue: pods of the queue with the smallest are evicted first for a pod of `home`, nearest
        to it below the root, then of the queue that is served last (VictimQueueOrder)."""
        shared = len({*self.accounts.paths[home][1:]} & {*self.accounts.paths[queue][1:]})
        return -shared, *(-part for part in self.accounts.key(queue))
