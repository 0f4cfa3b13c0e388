"""Which release of Volcano runs, by the image of its scheduler's pods, and the conditions about it. Pure functions.

The image counts if it names a release; else the Cluster of the plan in force.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.specs.cluster_spec import VolcanoVersion
from compiler.volcano.releases import as_declared, limits_devices, vulnerabilities_of
from reconciler.changes.results import Condition
from reconciler.observation.observe import Observation
from reconciler.observation.releases import running_releases
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import RepositorySettings


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
