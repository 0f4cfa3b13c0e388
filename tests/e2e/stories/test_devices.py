"""Parts of nodes on the real cluster: Volcano's plugins numa-aware and deviceshare let every pod onto the node that the
plan gave it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.beside import beside
from tests.controlplane import ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    HOSTNAME,
    SCHEDULER,
    GitRepository,
    Object,
    ReconcilerProcess,
    bound_pods,
    job_phase,
    job_pods,
    planned_pods,
    queue,
    role,
    volcano_job,
    wait_for_phase,
)

pytestmark = pytest.mark.e2e

SHARING = (
    f"{SCHEDULER}    - {{name: numa-aware}}\n    - {{name: deviceshare, arguments: {{deviceshare.VGPUEnable: true}}}}\n"
)
POOLS = beside(__file__)["pools"]
CAPACITY = {"cpu": "16", "memory": "64Gi", "pods": "110"}
VGPUS = {"volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-memory": "20000", "volcano.sh/vgpu-cores": "200"}


def limited(name: str, replicas: int, limits: Object, **task: Any) -> Object:
    """A role whose pods ask for these limits and so for as much."""
    made = role(name, replicas, **task)
    made["template"]["spec"]["containers"][0]["resources"] = {"limits": limits}
    return made


def share(memory: int) -> Object:
    """Of one card so many MiB."""
    return {"cpu": "1", "volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory)}


def mixed(*sizes: int) -> list[Object]:
    """Roles of one pod each for the mixed node. Their own order is the one given, in which Volcano's first fit finds no
    card for the last."""
    roles = [limited(f"{at}-of-{len(sizes)}", 1, share(size)) for at, size in enumerate(sizes)]
    for at, made in enumerate(roles):
        made["template"]["metadata"] = {"annotations": {"volcano.sh/task-priority": str(len(sizes) - at)}}
        made["template"]["spec"] |= {
            "nodeSelector": {HOSTNAME: "mixed"},
            "tolerations": [{"key": "mixed", "operator": "Exists"}],
        }
    return roles


def report_numa(plane: ControlPlane, node: str, idle: str) -> None:
    """What Volcano's resource exporter does: of two NUMA cells of 8 CPUs each, say which are idle."""
    spec = {
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
        "numares": {"cpu": {"allocatable": idle, "capacity": 16}},
        "cpuDetail": {str(cpu): {"numa": cpu // 8, "socket": cpu // 8, "core": cpu} for cpu in range(16)},
    }
    topology = {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": node},
        "spec": spec,
    }
    path = f"/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies/{node}?fieldManager=exporter&force=true"
    plane.api("PATCH", path, json.dumps(topology), "application/apply-patch+yaml")


def occupy(plane: ControlPlane, node: str, cpus: int) -> None:
    """Somebody's pod that has so many CPUs of the node for itself."""
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": str(cpus), "memory": "1Gi"}}}
    plane.api(
        "POST",
        "/api/v1/namespaces/default/pods",
        {"metadata": {"name": f"on-{node}"}, "spec": {"nodeName": node, "containers": [container]}},
    )


def report_cards(plane: ControlPlane, node: str) -> None:
    """What Volcano's device plugin does again and again: say that the node has two cards of 10,000 MiB."""
    register = "".join(f"{node}-{card},10,10000,NVIDIA-A,true,hami-core:" for card in ("a", "b"))
    plane.api(
        "PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"volcano.sh/node-vgpu-register": register}}}
    )


def test_pods_land_where_one_numa_cell_or_one_card_has_the_room(plane: ControlPlane, tmp_path: Path) -> None:
    plane.add_nodes(["numa-0", "numa-1"], capacity=CAPACITY)
    cards = plane.add_nodes(["card-0", "card-1"], capacity={**CAPACITY, **VGPUS})
    cards += plane.add_nodes(
        ["mixed"], capacity={**CAPACITY, **VGPUS}, taints=[{"key": "mixed", "effect": "NoSchedule"}]
    )
    for node, idle in (("numa-0", "4-7,12-15"), ("numa-1", "0-7")):
        occupy(plane, node, 8)
        report_numa(plane, node, idle)
    repository = GitRepository(tmp_path / "repo")
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER, SHARING, POOLS, queue("team"))
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        plane.wait_until(
            lambda: plane.logs("volcano-scheduler"),
            lambda said: "deviceshare]" in said,
            what="Volcano to share devices",
        )
        one_cell = limited("worker", 1, {"cpu": "6", "memory": "4Gi"}, topologyPolicy="single-numa-node")
        repository.write_file("jobs/cell.yaml", volcano_job("cell", one_cell, queue="team"))
        repository.commit()
        wait_for_phase(plane, "cell")
        assert bound_pods(plane, "cell") == planned_pods(plane, "cell") == {"worker": {"numa-1": 1}}, (
            "numa-0 has as many idle CPUs, 4 in each cell"
        )
        repository.write_file("jobs/next.yaml", volcano_job("next", one_cell, queue="team"))
        for node in cards:
            report_cards(plane, node)
        jobs = {"most": [limited("worker", 4, share(6000))], "mixed": mixed(5000, 3000, 7000, 5000)}
        # Not in one commit with those: of two jobs that share cards Volcano serves the first whose gates are lifted.
        jobs["rest"] = [limited("worker", 2, share(4000))]
        for name, roles in jobs.items():
            repository.write_file(f"jobs/{name}.yaml", volcano_job(name, *roles, queue="team"))
            repository.commit()
            plane.wait_until(
                lambda name=name: job_phase(plane, name),  # type: ignore[misc]
                lambda seen: seen == "Running",
                what=f"job {name} to run",
            )
            assert bound_pods(plane, name) == planned_pods(plane, name)
        assert bound_pods(plane, "most") == {"worker": {"card-0": 2, "card-1": 2}}, (
            "by the sum of its memory a node would take three"
        )
        taken = [
            pod["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"].partition(",")[0]
            for pod in job_pods(plane, "most")
        ]
        assert sorted(taken) == ["card-0-a", "card-0-b", "card-1-a", "card-1-b"]
        repository.write_file(
            "jobs/scattered.yaml", volcano_job("scattered", limited("worker", 1, share(5000)), queue="team")
        )
        repository.commit()
        plane.wait_until(
            lambda: reconciler.waiting_codes("scattered"),
            lambda seen: seen == ["GW118"],
            what="the pod for which no card has room to be told",
        )

        # The resource exporter is always late: it has not spoken of the first job's CPUs yet, and will not know at once
        # that they are idle again.
        assert reconciler.waiting_codes("next") == ["GW118"]
        report_numa(plane, "numa-1", "6-7")
        repository.remove_file("jobs/cell.yaml")
        commit = repository.commit()
        plane.wait_until(
            lambda: (reconciler.read_status()["commit"], job_pods(plane, "cell")),
            lambda seen: seen == (commit, []),
            what="the first job to be gone",
        )
        plane.wait_until(lambda: reconciler.gang_status("cell"), lambda seen: not seen, what="a plan without it")
        report_numa(plane, "numa-1", "0-7")
        wait_for_phase(plane, "next")
        assert bound_pods(plane, "next") == {"worker": {"numa-1": 1}}
