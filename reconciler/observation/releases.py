"""Which releases of Volcano run, by the images of its scheduler's pods."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import takewhile

from compiler.kubernetes import namespace_of
from compiler.specs.cluster_spec import VolcanoVersion
from compiler.volcano.releases import releases_of_pods
from reconciler.cluster.objects import Object
from reconciler.observation.observe import Observation


def running_releases(observation: Observation, namespace: str) -> tuple[VolcanoVersion, ...]:
    """Return the releases that scheduler pods of this namespace name; several while one replaces another."""
    return releases_of_pods(_pods_of_namespace(observation.objects_of_kind("Pod"), namespace))


def _pods_of_namespace(pods: list[Object], namespace: str) -> Iterator[Object]:
    """Found by bisection: a pass looks at few of a large cluster's pods. Keys are in the order of NAMESPACE/NAME."""
    start = bisect_left(pods, f"{namespace}/", key=lambda pod: f"{namespace_of(pod)}/")
    return takewhile(lambda pod: namespace_of(pod) == namespace, (pods[at] for at in range(start, len(pods))))
