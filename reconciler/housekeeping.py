"""What is done now and then, so that nothing grows for ever and what was deleted by hand returns."""

from __future__ import annotations

import logging

from reconciler.cluster.client import ApiError
from reconciler.context import Pass, Reconciler

log = logging.getLogger(__name__)

INTERVAL = 30.0
"""Seconds between two rounds."""


def keep_house(r: Reconciler, p: Pass) -> None:
    """Trim what one process remembers. The holder of the lease also keeps a copy of the plan in force, trims the
    inventory, and restores what was deleted or changed of it and of the status."""
    if p.snapshot is None:
        return
    acts = r.was_holder and r.lease.is_held() and not p.standstill
    if acts:
        r.planning.keep_copy(p.inventory, r.clock())
    if not r.begin_housekeeping(INTERVAL):
        return
    trim_memory(r, p)
    if acts:
        p.inventory.trim_runs(p.desired_keys | p.observation.objects.keys(), int(r.wall_clock()))
        _restore_inventory(r, p)
        r.publisher.recheck()


def _restore_inventory(r: Reconciler, p: Pass) -> None:
    try:
        if r.store.restore(p.inventory):
            log.warning("a part of the inventory was deleted or changed by hand and is written again")
    except ApiError as error:
        log.info("whether the inventory is whole is not known", extra={"reason": str(error)})


def trim_memory(r: Reconciler, p: Pass) -> None:
    """Forget objects that are neither in the repository nor in the inventory, and writes that the watches have long
    shown."""
    now = r.clock()
    known = p.desired_keys | p.inventory.entries.keys()
    known.add(r.store.ref.key)
    r.desired.forget_except(known)
    r.writer.memory.trim(known, now)
    r.writer.own.forget_except(known)
    for part in r.parts:
        part.forget_except(known)
