"""Huawei's AscendJob (mindxdl.gitee.com), as ascend-operator hands it to Volcano: shaped like Kubeflow's training jobs,
and started whole unless schedulingPolicy.minAvailable says less."""

from __future__ import annotations

from compiler.kinds.common.job_kinds import Count, JobKind, RolePaths, job_kind

REPLICAS, POLICY = "spec.replicaSpecs{}", "spec.runPolicy.schedulingPolicy"
TABLE = JobKind(
    "AscendJob",
    "mindxdl.gitee.com",
    ("v1",),
    (
        RolePaths(
            f"{REPLICAS}.template",
            replicas=(Count(f"{REPLICAS}.replicas"),),
            order=("Scheduler", "Chief", "Master", "Worker"),
        ),
    ),
    minimum=f"{POLICY}.minAvailable",
    queue=(f"{POLICY}.queue",),
    priority=(f"{POLICY}.priorityClass",),
    suspend=("spec.runPolicy.suspend",),
    scheduler="spec.schedulerName",
)
KIND = job_kind(TABLE)
