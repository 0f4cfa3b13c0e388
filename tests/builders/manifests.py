"""One valid manifest of every kind that is read, as plain data: what fuzzing starts from."""

from __future__ import annotations

import json
from typing import Any

import yaml

Manifest = dict[str, Any]

_POD = "{containers: [{name: main, image: a, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 1Gi}}}]}"
_VOLCANO_POD = _POD.replace("{containers", "{schedulerName: volcano, containers", 1)
_TEMPLATE = f"{{metadata: {{labels: {{app: NAME}}}}, spec: {_POD}}}"
_VOLCANO_TEMPLATE = f"{{metadata: {{labels: {{app: NAME}}}}, spec: {_VOLCANO_POD}}}"
_RUN_TEMPLATE = _VOLCANO_TEMPLATE.replace("{schedulerName", "{restartPolicy: Never, schedulerName", 1)
_TASKS = f"[{{name: worker, replicas: 2, template: {_TEMPLATE}}}]"
_JOB = f"{{queue: team, minAvailable: 2, plugins: {{svc: [], env: []}}, tasks: {_TASKS}}}"

CLUSTER_TEXT = """\
gangplan.dev/v1alpha1 Cluster:
  unplanned: reserve
  timeLimit: 20s
  jobKinds: [{kind: Training, apiVersion: example.com/v1, queue: spec.queue, roles: [
    {name: worker, template: spec.template, replicas: spec.count}]}]
gangplan.dev/v1alpha1 NodePool: {count: 3, capacity: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 8}, topology: [
  {name: sn, size: 2}], labels: {zone: a}, taints: [{key: x, effect: PreferNoSchedule}]}
gangplan.dev/v1alpha1 SchedulerConfiguration: {actions: [enqueue, allocate, preempt, reclaim], tiers: [{plugins: [
  {name: gang}, {name: priority}, {name: predicates}, {name: network-topology-aware, arguments: {weight: 2}}]}]}
scheduling.volcano.sh/v1beta1 Queue team: {weight: 1, capability: {cpu: 40}, deserved: {cpu: 4}, reclaimable: true}
topology.volcano.sh/v1alpha1 HyperNode:
  {tier: 1, members: [{type: Node, selector: {labelMatch: {matchLabels: {zone: b}}}}]}
"""
"""Key: apiVersion, kind and perhaps a name -> spec."""

JOBS_TEXT = f"""\
batch.volcano.sh/v1alpha1 Job: {_JOB}
batch.volcano.sh/v1alpha1 Job parts: {{minAvailable: 2, networkTopology: {{mode: hard, highestTierAllowed: 1}}, tasks: [
  {{name: a, replicas: 4, minAvailable: 2, partitionPolicy: {{totalPartitions: 2, partitionSize: 2}},
  template: {_TEMPLATE}}}, {{name: b, replicas: 1, dependsOn: {{name: [a]}}, template: {_TEMPLATE}}}]}}
batch.volcano.sh/v1alpha1 CronJob: {{schedule: "* * * * *", jobTemplate: {{spec: {_JOB}}}}}
batch/v1 Job: {{parallelism: 2, completions: 2, template: {_RUN_TEMPLATE}}}
batch/v1 CronJob: {{schedule: "0 * * * *", jobTemplate: {{spec: {{template: {_RUN_TEMPLATE}}}}}}}
apps/v1 Deployment: {{replicas: 2, selector: {{matchLabels: {{app: NAME}}}}, template: {_VOLCANO_TEMPLATE}}}
apps/v1 StatefulSet:
  {{serviceName: s, replicas: 1, selector: {{matchLabels: {{app: NAME}}}}, template: {_VOLCANO_TEMPLATE}}}
apps/v1 DaemonSet: {{selector: {{matchLabels: {{app: NAME}}}}, template: {_TEMPLATE}}}
kubeflow.org/v1 PyTorchJob: {{elasticPolicy: {{minReplicas: 1, maxReplicas: 3}}, pytorchReplicaSpecs: {{
  Worker: {{replicas: 2, template: {_VOLCANO_TEMPLATE}}}}}}}
kubeflow.org/v1 TFJob: {{runPolicy: {{schedulingPolicy: {{queue: team, minAvailable: 2}}}}, tfReplicaSpecs: {{
  Worker: {{replicas: 2, template: {_VOLCANO_TEMPLATE}}}, PS: {{template: {_VOLCANO_TEMPLATE}}}}}}}
kubeflow.org/v2beta1 MPIJob: {{slotsPerWorker: 1, mpiReplicaSpecs: {{
  Launcher: {{replicas: 1, template: {_VOLCANO_TEMPLATE}}}, Worker: {{replicas: 2, template: {_VOLCANO_TEMPLATE}}}}}}}
jobset.x-k8s.io/v1alpha2 JobSet: {{replicatedJobs: [
  {{name: w, replicas: 2, template: {{spec: {{parallelism: 2, completions: 2, template: {_VOLCANO_TEMPLATE}}}}}}}]}}
leaderworkerset.x-k8s.io/v1 LeaderWorkerSet: {{replicas: 1, leaderWorkerTemplate: {{
  size: 2, leaderTemplate: {_VOLCANO_TEMPLATE}, workerTemplate: {_VOLCANO_TEMPLATE}}}}}
ray.io/v1 RayCluster: {{enableInTreeAutoscaling: true, autoscalerOptions: {{resources: {{limits: {{cpu: 1}}}}}},
  headGroupSpec: {{rayStartParams: {{}}, template: {_TEMPLATE}}}, workerGroupSpecs: [
  {{groupName: g, replicas: 1, minReplicas: 1, maxReplicas: 2, numOfHosts: 1, rayStartParams: {{}},
  template: {_TEMPLATE}}}]}}
ray.io/v1 RayJob: {{entrypoint: a, rayClusterSpec: {{headGroupSpec: {{rayStartParams: {{}}, template: {_TEMPLATE}}},
  workerGroupSpecs: [{{groupName: g, replicas: 1, minReplicas: 1, maxReplicas: 2, rayStartParams: {{}},
  template: {_TEMPLATE}}}]}}}}
trainer.kubeflow.org/v1alpha1 TrainJob:
  {{runtimeRef: {{name: torch-distributed}}, trainer: {{numNodes: 2, resourcesPerNode: {{requests: {{cpu: 1}}}}}}}}
trainer.kubeflow.org/v1alpha1 TrainingRuntime: {{mlPolicy: {{numNodes: 2}}, template: {{spec: {{replicatedJobs: [
  {{name: node, template: {{spec: {{template: {_TEMPLATE}}}}}}}]}}}}}}
sparkoperator.k8s.io/v1beta2 SparkApplication: {{type: Python, mode: cluster, sparkVersion: "3.5", image: a,
  mainApplicationFile: a, batchScheduler: volcano, driver: {{cores: 1, memory: 512m}},
  executor: {{instances: 2, cores: 1, memory: 512m}}}}
argoproj.io/v1alpha1 Workflow: {{entrypoint: m, templates: [
  {{name: m, steps: [[{{name: s, template: c, withItems: [1, 2]}}]]}},
  {{name: c, container: {{image: a, resources: {{requests: {{cpu: 1}}}}}}}}]}}
argoproj.io/v1alpha1 Workflow refers: {{workflowTemplateRef: {{name: manifest}}}}
argoproj.io/v1alpha1 WorkflowTemplate: {{entrypoint: m, templates: [
  {{name: m, dag: {{tasks: [{{name: s, template: c}}]}}}}, {{name: c, container: {{image: a}}}}]}}
flow.volcano.sh/v1alpha1 JobTemplate step: {_JOB}
flow.volcano.sh/v1alpha1 JobFlow: {{jobRetainPolicy: delete, flows: [{{name: step}}]}}
training.volcano.sh/v1alpha1 HyperJob: {{minAvailable: 1, replicatedJobs: [
  {{name: r, replicas: 1, templateSpec: {_JOB}}}]}}
workload.serving.volcano.sh/v1alpha1 ModelServing: {{schedulerName: volcano, replicas: 1, template: {{roles: [
  {{name: r, replicas: 1, workerReplicas: 1, entryTemplate: {_TEMPLATE}, workerTemplate: {_TEMPLATE}}}]}}}}
scheduling.volcano.sh/v1beta1 PodGroup ring: {{minMember: 1, minTaskMember: {{w: 1}}, subGroupPolicy: [
  {{name: s, subGroupSize: 1, matchLabelKeys: [app], networkTopology: {{mode: soft}}}}]}}
v1 Pod: {_VOLCANO_POD}
example.com/v1 Training: {{queue: team, count: 2, template: {_TEMPLATE}}}
example.com/v1 Foo: {{replicas: 2, template: {_TEMPLATE}}}
"""

_METADATA: dict[str, dict[str, Any]] = {
    "Pod": {
        "annotations": {"scheduling.k8s.io/group-name": "ring", "volcano.sh/task-spec": "w"},
        "labels": {"app": "NAME"},
    },
    "Job": {"annotations": {"gangplan.dev/expected-duration": "1h"}},
}


def _manifests(text: str) -> list[Manifest]:
    found = []
    for at, (head, spec) in enumerate(yaml.safe_load(text).items()):
        version, kind, *name = head.split()
        metadata = {"name": (name or ["manifest" if kind.startswith("Workflow") else f"m{at}"])[0]}
        named = yaml.safe_load(yaml.safe_dump(spec).replace("NAME", metadata["name"]))
        found.append(
            {"apiVersion": version, "kind": kind, "metadata": {**metadata, **_METADATA.get(kind, {})}, "spec": named}
        )
    return found


def cluster_manifests() -> list[Manifest]:
    """Return what describes the cluster."""
    return _manifests(CLUSTER_TEXT)


def job_manifests() -> list[Manifest]:
    """Return what runs in it, and what that refers to."""
    return _manifests(JOBS_TEXT)


def repository_files(*others: Manifest) -> dict[str, bytes]:
    """Return these manifests as a repository, a file for each; others: in place of those of the same kind and name."""
    replacing, found = {_key(manifest): manifest for manifest in others}, dict[str, bytes]()
    for folder, manifests in (("cluster-specs/t", cluster_manifests()), ("jobs", job_manifests())):
        for manifest in manifests:
            key = _key(manifest)
            found[f"{folder}/{key}.yaml"] = json.dumps(replacing.get(key, manifest)).encode()
    return found


def _key(manifest: Manifest) -> str:
    return f"{manifest['apiVersion'].partition('/')[0]}-{manifest['kind']}-{manifest['metadata']['name']}".lower()
