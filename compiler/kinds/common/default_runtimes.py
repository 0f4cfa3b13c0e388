"""The ClusterTrainingRuntimes of Kubeflow's trainer 2.1, as far as a plan needs them.

Facts taken from manifests/base/runtimes of github.com/kubeflow/trainer v2.1.0 (Apache License 2.0): names of replicated
Jobs, their dependencies, devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.kubernetes import TRAIN_JOB_STEP_LABEL

TRAINER_VERSION = "2.1.0"
_MPI: Mapping[str, Any] = {"numNodes": 1, "mpi": {"runLauncherAsNode": True}}
_ONE_NODE: Mapping[str, Any] = {"numNodes": 1}


def _job(name: str, *awaited: str, step: str = "", gpus: int = 0) -> dict[str, Any]:
    resources = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    template = {"spec": {"containers": [{"name": "node" if step == "trainer" else name, **resources}]}}
    metadata = {"labels": {TRAIN_JOB_STEP_LABEL: step}} if step else {}
    depends = {"dependsOn": [{"name": other, "status": "Complete"} for other in awaited]} if awaited else {}
    return {"name": name, **depends, "template": {"metadata": metadata, "spec": {"template": template}}}


def _runtime(policy: Mapping[str, Any], *jobs: dict[str, Any]) -> dict[str, Any]:
    return {"mlPolicy": dict(policy), "template": {"spec": {"replicatedJobs": list(jobs)}}}


def _tuning(gpus: int) -> dict[str, Any]:
    initializers = ("dataset-initializer", "model-initializer")
    first = (_job(name, step=name) for name in initializers)
    return _runtime(_ONE_NODE, *first, _job("node", *initializers, step="trainer", gpus=gpus))


_MPI_RUNTIME = _runtime(_MPI, _job("launcher", step="trainer"), _job("node"))
DEFAULT_RUNTIMES: Mapping[str, Mapping[str, Any]] = {
    "deepspeed-distributed": _MPI_RUNTIME,
    "mlx-distributed": _MPI_RUNTIME,
    "torch-distributed": _runtime(_ONE_NODE, _job("node", step="trainer")),
    "torch-distributed-with-cache": _runtime(
        _ONE_NODE,
        _job("dataset-initializer", step="dataset-initializer"),
        _job("node", "dataset-initializer", step="trainer"),
    ),
    "torchtune-llama3.2-1b": _tuning(2),
    "torchtune-llama3.2-3b": _tuning(2),
    "torchtune-qwen2.5-1.5b": _tuning(2),
}
"""Name -> spec."""
