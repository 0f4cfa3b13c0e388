"""Which release of Volcano runs, by the image of its scheduler's pods, and what is known of it. Pure functions.

The image counts where it names a release; else what the Cluster of the plan in force says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import takewhile

from compiler.kubernetes import SCHEDULER_NAMESPACE, is_finished_pod, namespace_of
from compiler.specs.cluster_spec import KNOWN_MINORS, VolcanoVersion
from compiler.volcano.releases import limits_devices, release_of_image, vulnerabilities_of
from reconciler.changes.results import Condition
from reconciler.cluster.objects import Object
from reconciler.observation.observe import Observation
from reconciler.observation.pods import scheduler_text
from reconciler.planning.branch import Target


def release_conditions(observation: Observation, target: Target) -> Iterator[Condition]:
    """Whether the release that runs has a known vulnerability, and whether it is another one than the Cluster names."""
    manifests = target.snapshot.manifests if target.snapshot else ()
    maps = (each.object for each in manifests if each.object["kind"] == "ConfigMap")
    namespace = next((namespace_of(item) for item in maps if scheduler_text(item)), SCHEDULER_NAMESPACE)
    running = running_releases(observation, namespace)
    said = target.snapshot.settings.volcano if target.snapshot else ""
    declared = VolcanoVersion.of_text(said) if said else None
    yield _vulnerable(observation, running or ((declared,) if declared else ()))
    yield _different(running, declared)


def running_releases(observation: Observation, namespace: str) -> tuple[VolcanoVersion, ...]:
    """The releases that images of scheduler pods of this namespace name; several while one replaces another."""
    images = list[str]()
    for pod in _pods_of_namespace(observation.objects_of_kind("Pod"), namespace):
        containers = () if is_finished_pod(pod) else (pod.get("spec") or {}).get("containers") or ()
        images += (str(container.get("image") or "") for container in containers)
    return tuple(sorted({*filter(None, map(release_of_image, images))}))


def _pods_of_namespace(pods: list[Object], namespace: str) -> Iterator[Object]:
    """Found by bisection: a pass looks at few of a large cluster's pods. Keys are in the order of NAMESPACE/NAME."""
    start = bisect_left(pods, f"{namespace}/", key=lambda pod: f"{namespace_of(pod)}/")
    return takewhile(lambda pod: namespace_of(pod) == namespace, (pods[at] for at in range(start, len(pods))))


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
    texts = [f"Volcano {each} runs, and plans follow the rules of {declared}. Fix: {_fix(each)}" for each in others]
    return Condition.of_texts("VolcanoDiffers", texts, "None" if known else "NotKnown", "OtherRelease")


def _fix(running: VolcanoVersion) -> str:
    if running.minor not in KNOWN_MINORS:
        return f"run Volcano 1.{' or 1.'.join(map(str, KNOWN_MINORS))}, the releases that gangplan knows"
    return f'write volcano: "{running}" in the Cluster'
