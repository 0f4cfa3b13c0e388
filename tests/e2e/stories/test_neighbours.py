"""Rules between pods on the real cluster: Volcano's own predicates let every pod onto the node that the plan gave
it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    SCHEDULER,
    GitRepository,
    ReconcilerProcess,
    bound_pods,
    job_phase,
    node_pool,
    planned_pods,
    queue,
    role,
    volcano_job,
)

pytestmark = pytest.mark.e2e

ZONE = "topology.kubernetes.io/zone"
CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}


def ruled(replicas: int, app: str, gpus: int, **rules: Any) -> dict[str, Any]:
    """A role whose pods have a label of their own and these rules about others."""
    made = role("worker", replicas, gpus=gpus)
    made["template"]["metadata"]["labels"] = {"app": app}
    made["template"]["spec"].update(rules)
    return made


def required(key: str, app: str) -> dict[str, Any]:
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
        ]
    }


def test_pods_under_affinity_anti_affinity_and_spread_run_on_their_planned_nodes(
    plane: ControlPlane, tmp_path: Path
) -> None:
    for zone in ("a", "b"):
        plane.add_nodes([f"{zone}-{at}" for at in range(2)], capacity=CAPACITY, labels={ZONE: zone})
    repository = GitRepository(tmp_path / "repo")
    pools = [node_pool(zone, 2).replace("  count:", f"  labels: {{{ZONE}: {zone}}}\n  count:") for zone in ("a", "b")]
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, *pools, queue("team"))
    even = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    jobs = {
        "anti-affinity": ruled(
            4, "anti-affinity", 1, affinity={"podAntiAffinity": required("kubernetes.io/hostname", "anti-affinity")}
        ),
        "spread": ruled(6, "spread", 2, topologySpreadConstraints=[even]),
        "affinity": ruled(3, "affinity", 1, affinity={"podAffinity": required(ZONE, "affinity")}),
    }
    for name, worker in jobs.items():
        repository.write_file(f"jobs/{name}.yaml", volcano_job(name, worker, queue="team"))
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one"):
        for name in jobs:
            plane.wait_until(
                lambda name=name: job_phase(plane, name),  # type: ignore[misc]
                lambda seen: seen == "Running",
                what=f"job {name} to run",
            )
            assert bound_pods(plane, name) == planned_pods(plane, name)
    assert bound_pods(plane, "anti-affinity") == {"worker": {f"{zone}-{at}": 1 for zone in "ab" for at in range(2)}}
    zones: Counter[str] = Counter()
    for node, pods in bound_pods(plane, "spread")["worker"].items():
        zones[node[0]] += pods
    assert zones == {"a": 3, "b": 3}
    assert len({node[0] for node in bound_pods(plane, "affinity")["worker"]}) == 1
