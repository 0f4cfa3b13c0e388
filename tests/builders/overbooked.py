"""Nodes that were given more GPUs than they have, as the API server holds their pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.e2e.stories.story import HOSTNAME, is_gated

GPU = "nvidia.com/gpu"


def overbooked_nodes(pods: Iterable[Mapping[str, Any]], gpus: Mapping[str, int]) -> dict[str, int]:
    """Node -> GPUs that its pods ask for beyond what it has. gpus: node -> what it has.

    A pod is on a node where it is bound there, or has lost its gate and selects it; one that has ended holds nothing.
    """
    asked: Counter[str] = Counter()
    for pod in pods:
        if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            asked[_node_of(pod)] += sum(map(_gpus_of, pod["spec"]["containers"]))
    del asked[""]
    return {node: more for node, count in sorted(asked.items()) if (more := count - gpus.get(node, 0)) > 0}


def _node_of(pod: Mapping[str, Any]) -> str:
    spec = pod["spec"]
    given = "" if is_gated(pod) else spec.get("nodeSelector", {}).get(HOSTNAME, "")  # type: ignore[arg-type]
    return str(spec.get("nodeName") or given)


def _gpus_of(container: Mapping[str, Any]) -> int:
    return int(container.get("resources", {}).get("requests", {}).get(GPU, 0))
