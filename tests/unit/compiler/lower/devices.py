"""A node with shared devices or NUMA cells, and jobs that ask for parts of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from compiler.cluster_state.cluster_state import ClusterState
from compiler.lower.lowering import lower
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from solver.problem import Problem
from solver.validation.values import validate
from tests.builders import declared
from tests.builders.declared import Object, pod_spec
from tests.builders.repositories import repository

SINGLE = "single-numa-node"
FRACTIONS: Object = {
    "capacity": {"cpu": 32},
    "sharedDevices": [{"resource": "example.com/gpu-milli", "devices": 2, "each": 1000, "whole": "example.com/gpu"}],
}
VGPUS: Object = {
    "capacity": {"cpu": 32},
    "sharedDevices": [{"resource": "volcano.sh/vgpu-memory", "devices": 2, "each": 16000}],
}
EIGHT_CPUS: Object = {"capacity": {"cpu": 8, "memory": "8Gi"}}


def job(limits: str, replicas: int = 1, policy: str = "", name: str = "j", **more: Any) -> Object:
    """limits: in YAML. policy: the role's topologyPolicy."""
    task = {"topologyPolicy": policy} if policy else {}
    return declared.job(name, replicas, pod_spec(yaml.safe_load(limits)), namespace="t", task=task, **more)


def conf(*plugins: str | Object) -> Object:
    """A scheduler with these plugins after gang and predicates."""
    return declared.scheduler(("gang", "predicates", *plugins))


def tree(pool: Mapping[str, Any], *objects: Object) -> Repository:
    """pool: fields of the NodePool of the one node."""
    return repository(declared.node_pool(1, **pool), *objects)


def lowered(pool: Mapping[str, Any], *objects: Object, live: Sequence[Object] = ()) -> Problem:
    """As `tree`, with what the cluster has."""
    specs = read_specs(tree(pool, *objects))
    assert [d for d in specs.diagnostics if d.severity == "error"] == []
    problem, _ = lower(specs, ClusterState.from_objects(live) if live else None)
    validate(problem)
    return problem


def numa_topology(idle: str, cpus: Mapping[str, Any], reserved: str = "0") -> Object:
    """Of node n-0; idle: its CPUs that nobody has. cpus: CPU -> its cell and core."""
    spec = {
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": SINGLE},
        "numares": {"cpu": {"allocatable": idle, "capacity": len(cpus)}},
        "cpuDetail": cpus,
        "resReserved": {"cpu": reserved},
    }
    return declared.declared("Numatopology", "n-0", spec)


TWO_CELLS = {str(cpu): {"numa": cpu // 4, "socket": cpu // 4, "core": cpu // 2} for cpu in range(8)}
"""Eight CPUs in two NUMA cells."""
