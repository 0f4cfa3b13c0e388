"""A pod spec as a whole: Kubernetes' validation of pods and pod templates (pkg/apis/core/validation), as rows of
`pods.toml` where rows can express it."""

from __future__ import annotations

import marshal
from functools import lru_cache
from typing import Any

from compiler.openapi.shape import PLAIN, Flaw
from compiler.syntax.documents import FieldPath
from compiler.validation.containers import containers, resources, volumes
from compiler.validation.judge import Judge, items, mapping
from compiler.validation.rows import judge_rows

_AS_WRITTEN = """
    apps batch batch.volcano.sh elastic.iml.github.io flow.volcano.sh grove.io jobset.x-k8s.io kubeflow.org
    leaderworkerset.x-k8s.io mindxdl.gitee.com ray.io training.volcano.sh workload.serving.volcano.sh
"""
_IMAGES_AS_WRITTEN = frozenset(("", *_AS_WRITTEN.split()))
"""API groups whose controllers make pods of the images in the text; others fill one in."""


def pod_flaws(pod: Any, path: FieldPath, group: str, added: frozenset[str] = frozenset()) -> tuple[Flaw, ...]:
    """Return the flaws of a pod spec; arguments as of `pod_spec`."""
    return _flaws_of_content(marshal.dumps(pod, PLAIN), path, group, added)


@lru_cache(maxsize=512)
def _flaws_of_content(content: bytes, path: FieldPath, group: str, added: frozenset[str]) -> tuple[Flaw, ...]:
    """Return the flaws of a pod, cached by content: many jobs have the same pods."""
    judge = Judge()
    pod_spec(judge, marshal.loads(content), path, group, added)  # noqa: S302  # of this process
    return tuple(judge.flaws)


def pod_spec(
    judge: Judge, pod: dict[str, Any], path: FieldPath, group: str, added: frozenset[str] = frozenset()
) -> None:
    """A pod spec. group: the API group of the object that holds it. added: volumes that its controller adds."""
    by = "PodSpec of Volcano's webhook" if group == "batch.volcano.sh" else "PodSpec of the API server"
    for rows in ("PodSpec", by, *(["PodSpec with images"] if group in _IMAGES_AS_WRITTEN else [])):
        judge_rows(judge, rows, pod, path)
    containers(judge, pod, path, volumes(judge, pod, path) | added)
    resources(judge, pod.get("resources"), (*path, "resources"))
    _pod_resources(judge, pod, (*path, "resources"))
    seen: set[str] = set()
    for number, row in items(pod, "topologySpreadConstraints"):
        at, pair = (
            (*path, "topologySpreadConstraints", number),
            f"{row.get('topologyKey')} {row.get('whenUnsatisfiable')}",
        )
        judge.unique(at, pair, seen, "pair of topologyKey and whenUnsatisfiable")


def _pod_resources(judge: Judge, pod: dict[str, Any], path: FieldPath) -> None:
    """Resources of the pod as a whole: cpu, memory and huge pages only."""
    whole = mapping(pod, "resources")
    sections = {name: section for section in ("limits", "requests") for name in mapping(whole, section)}
    for name, section in sections.items():
        if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
            judge.contradiction((*path, section, name), "it is asked for by containers only", "move it there")
