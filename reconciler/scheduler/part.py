"""The part of Volcano: whether its scheduler runs the repository's configuration, and its components still act.

The image of its scheduler's pods shows which release runs, if it names one; else the Cluster of the plan in force does.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import inf

from compiler.emit.manifest import Manifest
from compiler.specs.cluster_spec import VolcanoVersion
from compiler.volcano.releases import as_declared, limits_devices, vulnerabilities_of
from compiler.volcano.scheduler_conf import CONF_KEY
from reconciler.changes.diff import Change
from reconciler.changes.results import ChangeResult, Condition, Effects
from reconciler.inventory.store import Inventory
from reconciler.observation.observe import Observation, Seen, running_releases
from reconciler.observation.pods import POD_GROUP, VOLCANO_JOB, scheduler_text
from reconciler.part import Part
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import RepositorySettings
from reconciler.scheduler.configuration import SchedulerMemory, SchedulerProbe
from reconciler.scheduler.stalls import (
    StallDetector,
    signs_of_controllers,
    signs_of_scheduler,
    unscheduled_jobs,
    unserved_jobs,
)
from reconciler.threads.heartbeat import Heartbeat
from reconciler.timings import SchedulerTimings

log = logging.getLogger(__name__)


class SchedulerPart(Part):
    """Keeps the configuration before the last change, and restores it if the scheduler does not use the new one.
    memory: the written configurations and their effect. detectors: of components that owe gangs of the plan
    something."""

    def __init__(self, probe: SchedulerProbe, patience: float, timings: SchedulerTimings) -> None:
        """patience: seconds in which the scheduler has to take a text."""
        self.probe, self.patience, self.memory = probe, patience, SchedulerMemory(patience)
        self.timings, self.looked_at, stalled = timings, -inf, timings.stalled
        controllers = StallDetector("Volcano's controllers have served no job", "volcano-controllers", stalled)
        scheduler = StallDetector("Volcano's scheduler has bound no pod", "volcano-scheduler", stalled)
        self.detectors = controllers, scheduler

    def recall(self, inventory: Inventory) -> None:
        """Go on with what the leader before this one knew."""
        self.memory = SchedulerMemory.of_kept(inventory.scheduler, self.patience)

    def standing(self, manifest: Manifest) -> Manifest:
        """Return the manifest; one whose configuration the scheduler did not take holds the former one."""
        text = scheduler_text(manifest.object) if manifest.object["kind"] == "ConfigMap" else ""
        standing = self.memory.text_for(text)
        if standing == text:
            return manifest
        return replace(manifest, object={**manifest.object, "data": {**manifest.object["data"], CONF_KEY: standing}})

    def observe(self, seen: Seen, target: Target, repeats: Collection[str], unbound: Collection[str]) -> None:
        """Look at what the gangs of the plan wait for, where it is time for a look. While that cannot be read, nothing
        is concluded. repeats: Ref.key of jobs that are made again, since they got no pods. unbound: uids of pods that
        were given a node and wait for the scheduler."""
        now, observation = seen.now, seen.observation
        if target.snapshot is None:
            return
        if not observation.readable_kinds >= {VOLCANO_JOB, POD_GROUP, "Pod"}:
            for detector in self.detectors:
                detector.restart(now)
        elif now >= self.looked_at + self.timings.look:
            self.looked_at, (controllers, scheduler), gangs = now, self.detectors, target.snapshot.gangs
            jobs = set(unserved_jobs(seen, gangs, repeats))
            controllers.observe(
                jobs, signs_of_controllers(observation.objects_of_kind(VOLCANO_JOB) if jobs else ()), now
            )
            jobs = set(unscheduled_jobs(seen, gangs, unbound))
            written = (observation.objects_of_kind(kind) if jobs else () for kind in (POD_GROUP, "Pod"))
            scheduler.observe(jobs, signs_of_scheduler(*written), now)

    def follow(self, seen: Seen, target: Target, results: Sequence[ChangeResult]) -> Effects:
        """Note written configurations, compare them with the scheduler, and have the former one restored."""
        memory, wanted, now = self.memory, _wanted_text(target), seen.now
        for result in results if wanted and memory.written != wanted else ():
            desired = result.change.desired
            if result.outcome == "done" and desired is not None and scheduler_text(desired.object) == wanted:
                memory.record_write(wanted, scheduler_text(result.change.live), now)
        if wanted and memory.observe(wanted, self.probe.active, now):
            log.warning("the scheduler did not take its configuration", extra={"reason": memory.reason})
            self.probe.wake()
        seen.inventory.note_scheduler(memory.kept())
        live = next(filter(scheduler_text, seen.observation.objects_of_kind("ConfigMap")), None)
        if live is not None and (message := self._behind_message(now, target)):
            return Effects.of_event(live, "SchedulerBehind", message, True)
        return Effects()

    def stalled(self, seen: Seen, target: Target) -> tuple[Change, ...]:
        """Return a row for each component that has stalled, at the first job that waits for it."""
        gangs = target.snapshot.gangs if target.snapshot else {}
        found = []
        for detector in self.detectors:
            waiting = [key for key in detector.waiting if key in gangs]
            if waiting and (message := detector.message(seen.now)):
                job = seen.observation.objects.get(waiting[0])
                found.append(Change("held", gangs[waiting[0]].job, live=job, reason=message))
        return tuple(found)

    def conditions(self, seen: Seen, target: Target) -> Iterator[Condition]:
        """Yield whether the scheduler uses the repository's configuration, and the condition of its release."""
        behind = self._behind_message(seen.now, target)
        known = "NotKnown" if self.probe.active is None else "None"
        yield Condition("SchedulerBehind", bool(behind), "NotTaken" if behind else known, behind or self.probe.problem)
        yield from release_conditions(seen.observation, target)

    def deadlines(self, now: float) -> list[float]:
        """Include the next look while a stall is reported, which it may end."""
        at = [at for detector in self.detectors for at in detector.deadlines(now)]
        is_any_reported = any(each.message(now) for each in self.detectors)
        return [*self.memory.deadlines(now), *at, *([self.looked_at + self.timings.look] if is_any_reported else [])]

    def heartbeats(self) -> list[Heartbeat]:
        return [self.probe.heartbeat]

    def start(self) -> None:
        self.probe.start()

    def stop(self) -> None:
        self.probe.stop()

    def _behind_message(self, now: float, target: Target) -> str:
        """Return why the scheduler does not run the repository's configuration; empty where it does, or that is not
        known."""
        memory, wanted = self.memory, _wanted_text(target)
        if wanted and memory.refused == wanted:
            return (
                f"Volcano rejected the configuration in the repository ({memory.reason}). The previous one was "
                "restored; see the scheduler's log. A changed configuration will be applied"
            )
        if memory.behind and memory.is_late(now):
            return f"the scheduler does not use its ConfigMap: {memory.behind}"
        return ""


def _wanted_text(target: Target) -> str:
    """Return the configuration in the repository; empty if there is none."""
    manifests = target.snapshot.manifests if target.snapshot else ()
    texts = (scheduler_text(manifest.object) for manifest in manifests if manifest.object["kind"] == "ConfigMap")
    return next(filter(None, texts), "")


def release_conditions(observation: Observation, target: Target) -> Iterator[Condition]:
    """Yield whether the release that runs has a known vulnerability, and whether it is another one than the Cluster
    names."""
    settings = target.snapshot.settings if target.snapshot else RepositorySettings()
    running = running_releases(observation, settings.scheduler_namespace)
    declared = VolcanoVersion.of_text(settings.volcano) if settings.volcano else None
    yield _vulnerable(observation, running or ((declared,) if declared else ()))
    yield _different(running, declared)


def _vulnerable(observation: Observation, releases: tuple[VolcanoVersion, ...]) -> Condition:
    quotas = any(map(limits_devices, observation.objects_of_kind("Queue.scheduling.volcano.sh")))
    found = list[str]()
    for release in releases:
        known = vulnerabilities_of(release, has_device_quotas=quotas)
        found += (f"Volcano {release}: {each.text} ({each.name}). Fix: {each.fix}" for each in known)
    is_known = bool(releases) and all(release.patch is not None for release in releases)
    without = "None" if is_known else "NotKnown"
    return Condition.of_texts("VolcanoVulnerable", found, without, "KnownVulnerability")


def _different(running: tuple[VolcanoVersion, ...], declared: VolcanoVersion | None) -> Condition:
    known = running if declared is not None else ()
    others = [each for each in known if declared not in (each, each._replace(patch=None))]
    texts = [
        f"Volcano {each} runs, and plans follow the rules of {declared}. Fix: {as_declared(each)}" for each in others
    ]
    return Condition.of_texts("VolcanoDiffers", texts, "None" if known else "NotKnown", "OtherRelease")
