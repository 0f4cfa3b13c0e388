"""Kinds of objects that gangplan reads.

A new kind is a new module with a `KIND` (or `KINDS`, where a family shares one), named in `MODULES`. A job kind needs
no more than a table (`compiler.kinds.common.job_kinds`).

A kind's `specs` turns a document, validated by the kind's pydantic model, into specs (`compiler.specs`), or into drafts
(`compiler.specs.drafts`) that other documents complete. Rules beyond the shape are checks (`compiler.checks`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from compiler.diagnostics import Diagnostic
from compiler.syntax.documents import Document

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its name, API group and versions, and the pydantic model of the whole document.

    specs: the document as specs or drafts. text_diagnostics: findings that the model does not make. is_foreign: of
    an operator, so that other versions pass. runs_once: an object ends and is not made again, which of kinds that are
    known `compiler.run_kinds` says. unbound_reason: why the plan's nodes bind no pods of an object, else empty.
    partial_specs: what can be read of a document with errors, for checks only.
    is_written: false for what people never write as an object.
    """

    name: str
    group: str
    versions: tuple[str, ...]
    model: type[BaseModel]
    specs: Callable[[Document, Any], Iterable[object]]
    text_diagnostics: Callable[[Document], Iterator[Diagnostic]] | None = None
    is_foreign: bool = False
    partial_specs: Callable[[Document], Iterable[object]] | None = None
    is_written: bool = True
    runs_once: bool = False
    unbound_reason: str = ""

    @property
    def key(self) -> str:
        return f"{self.name}.{self.group}"

    @property
    def namespaced(self) -> bool:
        return self.key not in CLUSTER_WIDE_KINDS

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]


MODULES: Mapping[str, tuple[str, ...]] = {
    "argo_workflow": ("CronWorkflow.argoproj.io", "Workflow.argoproj.io"),
    "ascend_job": ("AscendJob.mindxdl.gitee.com",),
    "batch_job": ("Job.batch",),
    "cluster": ("Cluster.gangplan.dev",),
    "config_map": ("ConfigMap.",),
    "cron_job": ("CronJob.batch", "CronJob.batch.volcano.sh"),
    "elastic_job": ("ElasticJob.elastic.iml.github.io",),
    "hyper_job": ("HyperJob.training.volcano.sh",),
    "hypernode": ("HyperNode.topology.volcano.sh",),
    "job_flow": ("JobFlow.flow.volcano.sh", "JobTemplate.flow.volcano.sh"),
    "job_set": ("JobSet.jobset.x-k8s.io",),
    "kubeflow_jobs": tuple(
        f"{name}.kubeflow.org"
        for name in ("JAXJob", "MPIJob", "MXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
    ),
    "leader_worker_set": ("LeaderWorkerSet.leaderworkerset.x-k8s.io",),
    "model_serving": ("ModelServing.workload.serving.volcano.sh",),
    "node": ("Node.",),
    "node_pool": ("NodePool.gangplan.dev",),
    "numatopology": ("Numatopology.nodeinfo.volcano.sh",),
    "pod": ("Pod.",),
    "pod_group": ("PodGroup.scheduling.volcano.sh",),
    "priority_class": ("PriorityClass.scheduling.k8s.io",),
    "queue": ("Queue.scheduling.volcano.sh",),
    "ray": ("RayCluster.ray.io", "RayJob.ray.io", "RayService.ray.io"),
    "scheduler_configuration": ("SchedulerConfiguration.gangplan.dev",),
    "scheduler_file": ("SchedulerFile.gangplan.dev",),
    "serving": (
        "InferenceService.serving.kserve.io",
        "PodCliqueSet.grove.io",
        "RayClusterFleet.orchestration.aibrix.ai",
        "RoleBasedGroup.workloads.x-k8s.io",
        "StormService.orchestration.aibrix.ai",
        "Workspace.kaito.sh",
    ),
    "services": (
        "ReplicationController.",
        *(f"{name}.apps" for name in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
    ),
    "spark": tuple(
        f"{name}.sparkoperator.k8s.io" for name in ("ScheduledSparkApplication", "SparkApplication", "SparkConnect")
    ),
    "train_job": tuple(
        f"{name}.trainer.kubeflow.org" for name in ("ClusterTrainingRuntime", "TrainJob", "TrainingRuntime")
    ),
    "volcano_job": ("Job.batch.volcano.sh",),
}
"""Module -> the kinds in it ("Kind.group"): what a repository does not hold is not imported."""

CLUSTER_WIDE_KINDS = frozenset(
    (
        "Cluster.gangplan.dev",
        "ClusterTrainingRuntime.trainer.kubeflow.org",
        "HyperNode.topology.volcano.sh",
        "Node.",
        "NodePool.gangplan.dev",
        "Numatopology.nodeinfo.volcano.sh",
        "PriorityClass.scheduling.k8s.io",
        "Queue.scheduling.volcano.sh",
        "SchedulerFile.gangplan.dev",
    )
)
"""Kinds whose objects have no namespace."""


class _Kinds(Mapping[str, Kind]):
    """Kinds by "Kind.group", sorted by group and name; each is imported when it is asked for."""

    def __init__(self) -> None:
        modules = {key: module for module, keys in MODULES.items() for key in keys}
        self._modules = dict(sorted(modules.items(), key=lambda item: item[0].partition(".")[::-1]))
        self._known: dict[str, Kind] = {}

    def __getitem__(self, key: str) -> Kind:
        if key not in self._known:
            module = importlib.import_module(f"{__name__}.{self._modules[key]}")
            found: tuple[Kind, ...] = module.KINDS if hasattr(module, "KINDS") else (module.KIND,)
            self._known |= {kind.key: kind for kind in found}
        return self._known[key]

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


@cache
def kinds() -> Mapping[str, Kind]:
    """Every kind, by "Kind.group" ("Node." for the core group)."""
    return _Kinds()
