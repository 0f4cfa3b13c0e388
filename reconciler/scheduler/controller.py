"""Phase 5 of a pass, the scheduler's configuration: the text before the last change is kept, whether the scheduler has
taken the new one is found out by what it does, and the former one returns when it has not."""

from __future__ import annotations

import logging
from dataclasses import replace

from compiler.emit.manifest import Manifest
from compiler.volcano.scheduler_conf import CONF_KEY
from reconciler.cluster.client import ApiError, NotFound
from reconciler.cluster.objects import Object, Ref
from reconciler.context import Pass, Reconciler
from reconciler.inventory.shards import memory_labels
from reconciler.scheduler.configuration import SchedulerMemory, text_of

log = logging.getLogger(__name__)

STATE_KEY = "scheduler.json"


def with_standing_text(r: Reconciler, manifest: Manifest) -> Manifest:
    """The manifest; one whose configuration the scheduler did not take holds the former one."""
    text = text_of(manifest.object) if manifest.object["kind"] == "ConfigMap" else ""
    standing = r.scheduler_memory.text_for(text)
    if standing == text:
        return manifest
    return replace(manifest, object={**manifest.object, "data": {**manifest.object["data"], CONF_KEY: standing}})


def read_scheduler_memory(r: Reconciler) -> SchedulerMemory:
    """What the leader before this one knew. Raises ApiError."""
    try:
        text = r.client.get(_state_ref(r))["data"][STATE_KEY]
        return SchedulerMemory.from_json(text, r.settings.scheduler_timeout)
    except NotFound:
        log.debug("nothing is stored of the scheduler's configuration")
    except (ValueError, KeyError, TypeError) as error:
        log.warning("the former configuration of the scheduler cannot be read", extra={"reason": str(error)})
    return SchedulerMemory(patience=r.settings.scheduler_timeout)


def follow_scheduler(r: Reconciler, p: Pass) -> None:
    """Note what was written, compare it with what the scheduler does, and let the former configuration return."""
    memory, wanted = r.scheduler_memory, wanted_text(p)
    for result in p.results if wanted and memory.written != wanted else ():
        change = result.change
        if result.outcome == "done" and change.desired is not None and text_of(change.desired.object) == wanted:
            memory.record_write(wanted, text_of(change.live), r.clock())
    if wanted and memory.observe(wanted, r.scheduler_probe.active, r.clock()):
        log.warning("the scheduler did not take its configuration", extra={"reason": memory.reason})
        r.wake_event.set()
    r.scheduler_probe.remind_at(memory.next_look(r.clock()))
    if not memory.is_stored:
        _store(r)
    live = next(filter(text_of, p.observation.objects_of_kind("ConfigMap")), None)
    if live is not None and (message := behind_message(r, p)):
        p.tell(live, "SchedulerBehind", message, True)


def behind_message(r: Reconciler, p: Pass) -> str:
    """Why the scheduler does not run the repository's configuration; empty where it does, or that is not known."""
    memory, wanted = r.scheduler_memory, wanted_text(p)
    if wanted and memory.refused == wanted:
        return (
            f"the scheduler did not take the configuration of the repository ({memory.reason}), so the one before it "
            "stands again; its log says why. Another text is tried again"
        )
    if memory.behind and memory.is_late(r.clock()):
        return f"the scheduler does not go by its ConfigMap: {memory.behind}"
    return ""


def wanted_text(p: Pass) -> str:
    """The configuration in the repository; empty where there is none."""
    manifests = p.snapshot.manifests if p.snapshot else ()
    texts = (text_of(manifest.object) for manifest in manifests if manifest.object["kind"] == "ConfigMap")
    return next(filter(None, texts), "")


def _state_ref(r: Reconciler) -> Ref:
    return Ref("v1", "ConfigMap", r.settings.namespace, f"gangplan-{r.settings.cluster}-scheduler")


def _store(r: Reconciler) -> None:
    ref = _state_ref(r)
    metadata = {"name": ref.name, "namespace": ref.namespace, "labels": memory_labels(r.settings.cluster)}
    item: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    try:
        r.client.apply_anyway({**item, "data": {STATE_KEY: r.scheduler_memory.as_json()}})
    except ApiError as error:
        log.info("the former configuration of the scheduler was not stored", extra={"reason": str(error)})
    else:
        r.scheduler_memory.note_stored()
