"""What is done now and then, so that nothing grows for ever and what was deleted by hand returns."""

from __future__ import annotations

import logging
from collections.abc import Collection, MutableMapping
from dataclasses import replace
from typing import Any

from compiler.kubernetes import uid_of
from reconciler.cluster.client import ApiError
from reconciler.context import Pass, Reconciler
from reconciler.decisions.guard import FIGHT_WINDOW
from reconciler.plan.cluster_copy import KeptPlan
from reconciler.writing.writer import LAST_WRITE_SECONDS

log = logging.getLogger(__name__)

INTERVAL = 30.0
"""Seconds between two rounds."""
RUN_MEMORY_SECONDS = 30 * 86_400
"""How long a finished run is remembered after its job left the repository."""
RUN_MEMORY_SIZE = 100_000
"""Finished runs that are remembered at most, those of jobs in the repository apart."""


def keep_house(r: Reconciler, p: Pass) -> None:
    """Trim what one process remembers. The holder of the lease also keeps a copy of the plan in force, trims the
    inventory, and restores what was deleted or changed of it."""
    if p.snapshot is None:
        return
    acts = r.was_holder and r.lease.is_held() and not p.standstill
    if acts and r.planning.tree is not None and p.inventory.commit == p.snapshot.commit:
        r.plan_copy.offer(KeptPlan(p.snapshot, r.planning.tree), r.clock())
    if not r.begin_housekeeping(INTERVAL):
        return
    trim_memory(r, p)
    if acts:
        trim_runs(r, p)
        _restore_inventory(r, p)


def _restore_inventory(r: Reconciler, p: Pass) -> None:
    try:
        if r.store.restore(p.inventory):
            log.warning("a part of the inventory was deleted or changed by hand and is written again")
    except ApiError as error:
        log.info("whether the inventory is whole is not known", extra={"reason": str(error)})


def trim_memory(r: Reconciler, p: Pass) -> None:
    """Forget objects that are neither in the repository nor in the inventory, commits that are neither the head nor in
    force, and writes that the watches have long shown."""
    planning, memory, now = r.planning, r.writer.memory, r.clock()
    known = p.desired_keys | p.inventory.entries.keys()
    known.add(r.store.ref.key)
    tables: tuple[MutableMapping[str, Any], ...] = (
        planning.unchanged,
        planning.running,
        memory.unfixable_differences,
        memory.applied_digests,
        memory.paused_changes,
        memory.refused_updates,
        memory.failures,
        r.lost_jobs.repeats,
    )
    for table in tables:
        _keep_only(table, known)
    _keep_only(planning.rejections, {r.poller.head.commit, p.target_commit})
    oldest = now - LAST_WRITE_SECONDS
    _keep_only(memory.last_writes, {key for key, (_, _, at) in memory.last_writes.items() if at >= oldest})
    _keep_only(r.evictions.granted, {uid_of(item) for item in p.observation.objects.values()})
    fights = memory.fights
    _keep_only(fights.heat, {key for key, (_, at) in fights.heat.items() if now - at < FIGHT_WINDOW})
    _keep_only(fights.paused_until, {key for key, until in fights.paused_until.items() if until > now})
    _keep_only(fights.opponents, fights.paused_until.keys())


def _keep_only(table: MutableMapping[str, Any], keys: Collection[str]) -> None:
    for key in table.keys() - keys:
        del table[key]


def trim_runs(r: Reconciler, p: Pass) -> None:
    """Forget finished runs whose job left the repository long ago; where there are too many, those that left first."""
    now, runs = int(r.wall_clock()), p.inventory.runs
    present = p.desired_keys | p.observation.objects.keys()
    absent: list[tuple[int, str]] = []
    for key, run in list(runs.items()):
        if key in present:
            if run.left_at:
                runs[key] = replace(run, left_at=0)
        elif not run.left_at:
            runs[key] = replace(run, left_at=now)
            absent.append((now, key))
        elif now - run.left_at > RUN_MEMORY_SECONDS:
            runs.pop(key)
        else:
            absent.append((run.left_at, key))
    for _, key in sorted(absent)[: max(0, len(absent) - RUN_MEMORY_SIZE)]:
        runs.pop(key)
