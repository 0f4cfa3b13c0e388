"""`gangplan init`: a small repository that works, to start from."""

from __future__ import annotations

import os
from pathlib import Path

import click

_CLUSTER = """\
# How this cluster is planned for. Every field has a default; `gangplan schema Cluster` lists them.
apiVersion: gangplan.dev/v1alpha1
kind: Cluster
metadata:
  name: example
spec:
  binding: gated        # the reconciler lifts scheduling gates; static writes node affinity for plain kubectl apply
  allowPrivileged: true # the API server runs with --allow-privileged, as kubeadm's and managed ones do; false: without
---
# 16 nodes of 8 GPUs, 4 to a supernode (network tier 1), all under one spine (tier 2).
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata:
  name: gpu
spec:
  count: 16
  capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}
  topology:
  - {name: supernode, size: 4}
  - {name: spine}
---
# volcano-scheduler.conf, typed and checked. metadata names the ConfigMap that the scheduler reads.
apiVersion: gangplan.dev/v1alpha1
kind: SchedulerConfiguration
metadata:
  name: volcano-scheduler-configmap
  namespace: volcano-system
spec:
  actions: [enqueue, allocate, backfill]
  tiers:
  - plugins:
    - name: priority
    - name: gang
    - name: conformance
  - plugins:
    - name: drf
    - name: predicates
    - name: capacity
    - name: nodeorder
    - name: binpack
    - name: network-topology-aware
"""

_QUEUES = """\
# guarantee <= deserved <= capability, each per resource and each optional.
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: research
spec:
  deserved: {nvidia.com/gpu: 96}
  capability: {nvidia.com/gpu: 128}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: serving
spec:
  guarantee:
    resource: {nvidia.com/gpu: 16}
  deserved: {nvidia.com/gpu: 32}
  capability: {nvidia.com/gpu: 64}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: urgent
value: 1000
"""

_JOB = """\
# Starts whole or not at all, inside one supernode (4 pods of 8 GPUs).
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: pretrain
  namespace: research
  annotations:
    gangplan.dev/expected-duration: 6h
spec:
  queue: research
  priorityClassName: urgent
  networkTopology:
    mode: hard
    highestTierAllowed: 1
  plugins: {svc: [], env: []}
  policies:
  - event: PodEvicted
    action: RestartJob
  tasks:
  - name: worker
    replicas: 4
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: train
          image: example.org/train:1.0
          resources:
            requests: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 8}
            limits: {nvidia.com/gpu: 8}
"""

_WORKFLOW = """\
# Checks every pull request and says on it what the change would do. Put in where gangplan is, and a revision of it.
name: gangplan
on:
  pull_request:
permissions:
  contents: read
  pull-requests: write
jobs:
  plan:
    runs-on: ubuntu-latest
    steps:
    - uses: actions/checkout@v4
      with:
        fetch-depth: 0      # the comparison needs the commit from which the branch left
    - uses: OWNER/gangplan/.github/actions/plan@REVISION
      with:
        comment: ${{ github.event.pull_request.head.repo.full_name == github.repository }}
"""

WORKFLOW_FILE = ".github/workflows/gangplan.yml"
EXAMPLE_FILES = {
    "cluster-specs/example/cluster.yaml": _CLUSTER,
    "cluster-specs/example/queues.yaml": _QUEUES,
    "jobs/research/pretrain.yaml": _JOB,
    WORKFLOW_FILE: _WORKFLOW,
}


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.pass_context
def init(ctx: click.Context, directory: Path) -> None:
    """Write a small repository to start from into DIRECTORY; nothing that exists is overwritten."""
    taken = [name for name in ("cluster-specs", "jobs", *EXAMPLE_FILES) if os.path.lexists(directory / name)]
    if taken:
        raise click.ClickException(f"{directory / taken[0]} exists already; nothing was written")
    try:
        for name, text in EXAMPLE_FILES.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            with (directory / name).open("x", encoding="utf-8") as file:
                file.write(text)
            click.echo(f"wrote {directory / name}")
    except OSError as problem:
        raise click.ClickException(f"{problem.filename}: {problem.strerror}") from problem
    where = "" if directory == Path() else f" --repo {directory}"
    click.echo(f"In {directory / WORKFLOW_FILE} write where gangplan is in place of OWNER and REVISION")
    click.echo(f"Next: gangplan check{where}, then gangplan plan{where}")
