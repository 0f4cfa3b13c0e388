"""Names and accessors of Kubernetes objects: labels, annotations, the scheduling gate, phases, and metadata.

The only module that spells a label or an annotation of gangplan, Kubernetes, Volcano, Kubeflow or MetaX. Resource names
such as volcano.sh/vgpu-memory are in `compiler.volcano`. Accessors take objects as the API server returns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

Object = Mapping[str, Any]
"""One Kubernetes object as plain JSON data."""

# gangplan
API_GROUP = "gangplan.dev"
API_VERSION = f"{API_GROUP}/v1alpha1"
ANNOTATION_PREFIX = f"{API_GROUP}/"
SCHEDULING_GATE = f"{ANNOTATION_PREFIX}placement"
"""The scheduling gate that holds a pod until the reconciler gives it its node."""
SCHEDULER_NAMESPACE = "volcano-system"
"""The namespace of Volcano's scheduler and its ConfigMap, unless the repository names another."""
SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")
"""The cluster's own."""

ADOPT_ANNOTATION = f"{ANNOTATION_PREFIX}adopt"
""" "true" lets gangplan take fields that another manager owns in an object it did not create."""
ALLOW_PRUNE_ANNOTATION = f"{ANNOTATION_PREFIX}allow-prune"
"""On the Cluster: the digest of a list of deletions that may go beyond the limits, or the commit at which it was held.
On the status ConfigMap: the digest, or the branch's head."""
CLOSED_ANNOTATION = f"{ANNOTATION_PREFIX}closed"
"""On a queue: "true" starts none of its jobs."""
DEDICATED_DOMAINS_ANNOTATION = f"{ANNOTATION_PREFIX}guaranteed-domains"
"""On a queue: how many hypernodes of which tier are kept free for it."""
CLUSTER_ANNOTATION = f"{ANNOTATION_PREFIX}cluster"
"""On a job: the one cluster of the repository that runs it."""
EXPECTED_DURATION_ANNOTATION = f"{ANNOTATION_PREFIX}expected-duration"
"""On a job: how long it is expected to run."""
GANG_ANNOTATION = f"{ANNOTATION_PREFIX}gang"
"""On a Job of batch/v1 or a service: "true" starts all of its pods or none."""
ORDER_ANNOTATION = f"{ANNOTATION_PREFIX}order"
"""On a queue: "strict" starts its jobs in their order."""
PLACEMENT_ANNOTATION = f"{ANNOTATION_PREFIX}placement"
"""Written on a job: role -> node -> pods, as planned."""
PROMISED_START_ANNOTATION = f"{ANNOTATION_PREFIX}promised-start"
"""Written on a job: its first window of start times."""
PRUNE_ANNOTATION = f"{ANNOTATION_PREFIX}prune"
""" "disabled" keeps an object that left the repository."""
REPLACE_ANNOTATION = f"{ANNOTATION_PREFIX}replace"
""" "true" lets a changed specification end a job that runs, and an object that the server does not let be changed be
deleted and recreated."""
RUN_ANNOTATION = f"{ANNOTATION_PREFIX}run"
"""A new value runs a finished job again although its specification is the same."""
STARTS_AT_ANNOTATION = f"{ANNOTATION_PREFIX}starts-at"
"""Written on a waiting job: the start that the plan reserves for it."""
SUBMITTED_AT_ANNOTATION = f"{ANNOTATION_PREFIX}submitted-at"
"""On a job: when it was submitted."""
SUSPEND_ANNOTATION = f"{ANNOTATION_PREFIX}suspend"
"""On any object: "true" keeps the reconciler from it; gated pods of a job stay gated."""
WAITING_ANNOTATION = f"{ANNOTATION_PREFIX}waiting"
"""Written on a job that does not start: why."""
YIELD_ANNOTATION = f"{ANNOTATION_PREFIX}yield"
"""Comma-separated field paths (spec.weight) that gangplan leaves to other managers."""
KNOWN_ANNOTATIONS = (
    ADOPT_ANNOTATION,
    ALLOW_PRUNE_ANNOTATION,
    CLOSED_ANNOTATION,
    CLUSTER_ANNOTATION,
    EXPECTED_DURATION_ANNOTATION,
    GANG_ANNOTATION,
    DEDICATED_DOMAINS_ANNOTATION,
    ORDER_ANNOTATION,
    PLACEMENT_ANNOTATION,
    PROMISED_START_ANNOTATION,
    PRUNE_ANNOTATION,
    REPLACE_ANNOTATION,
    RUN_ANNOTATION,
    STARTS_AT_ANNOTATION,
    SUBMITTED_AT_ANNOTATION,
    SUSPEND_ANNOTATION,
    WAITING_ANNOTATION,
    YIELD_ANNOTATION,
)
"""The annotations that users may write, in order of their names; any other under the prefix is a warning."""
DIGEST_ANNOTATION = f"{ANNOTATION_PREFIX}digest"
"""Written on a job in the cluster: the digest of the specification that this run was made from."""
ALLOW_REBUILD_ANNOTATION = f"{ANNOTATION_PREFIX}allow-rebuild"
"""On the status ConfigMap: the branch's head, for which a lost inventory may be recreated."""
ALLOW_REWRITE_ANNOTATION = f"{ANNOTATION_PREFIX}allow-rewrite"
"""On the status ConfigMap: a commit that may replace the one in force although it does not descend from it."""
SNAPSHOT_TIME_ANNOTATION = f"{ANNOTATION_PREFIX}now"
"""Written on the List of a state: when it was made."""
CLUSTER_LABEL = f"{ANNOTATION_PREFIX}cluster"
MEMORY_LABEL = f"{ANNOTATION_PREFIX}memory-of"
"""Written on the ConfigMaps in which the reconciler of a cluster remembers."""
JOB_MARK = f"{ANNOTATION_PREFIX}job"
"""Written as an annotation into a pod template: Kind.group/name of its job, where its controller does not write
that."""
ROLE_MARK = f"{ANNOTATION_PREFIX}role"
"""Likewise: the role."""
POD_OWNERS_ANNOTATION = f"{ANNOTATION_PREFIX}pod-owners"
"""Written on a job: Kind.group, separated by commas, of possible objects between it and its pods."""
DEPENDENT_ROLES_ANNOTATION = f"{ANNOTATION_PREFIX}dependent-roles"
"""Written on a job: its roles, separated by commas, whose pods appear only once others run."""
PLACE_ANNOTATION = f"{ANNOTATION_PREFIX}place"
"""Written on such a ConfigMap: which part of which table it is, as JSON."""

# Kubernetes, Kubeflow and Ray
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
HOSTNAME_LABEL = "kubernetes.io/hostname"
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""On every Namespace, by the API server: its name."""
OS_LABEL, ARCH_LABEL = "kubernetes.io/os", "kubernetes.io/arch"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
NODE_CONDITION_TAINTS = "node.kubernetes.io/"
"""Begins the keys of taints that the node controller sets and takes away."""
DEFAULT_TOLERATIONS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that admission lets each pod tolerate for a while."""
LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_PLATFORM_LABELS = ("kubernetes.io/{}", "beta.kubernetes.io/{}")
GROUP_NAME_ANNOTATION = "scheduling.k8s.io/group-name"
"""On a pod: the name of its PodGroup."""
VOLCANO_GROUP_NAME_ANNOTATION = "scheduling.volcano.sh/group-name"
"""On a pod: another name of its PodGroup, which Volcano's scheduler reads as well."""
TRAIN_JOB_STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
"""On a replicated job of a TrainJob's runtime: its function for the TrainJob."""
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
MAPPING_TYPES: Final = (dict, Mapping)
"""For isinstance: nearly all mappings of an object are a dict, which is quick to recognize."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
"""The terms of an affinity that must hold."""
PRESSURE_TAINTS = tuple(f"node.kubernetes.io/{what}-pressure" for what in ("disk", "memory", "pid"))
NO_NETWORK_TAINT = "node.kubernetes.io/network-unavailable"
UNINITIALIZED_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN_TAINT = "node.cloudprovider.kubernetes.io/shutdown"
BATCH_JOB_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
BATCH_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
KUBEFLOW_JOB_NAME_LABEL = "training.kubeflow.org/job-name"
KUBEFLOW_JOB_ROLE_LABEL = "training.kubeflow.org/job-role"
KUBEFLOW_OPERATOR_LABEL = "training.kubeflow.org/operator-name"
KUBEFLOW_ROLE_LABEL = "training.kubeflow.org/replica-type"
KUBEFLOW_INDEX_LABEL = "training.kubeflow.org/replica-index"

JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
JOB_SET_JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
LEADER_WORKER_SET_LABEL = "leaderworkerset.sigs.k8s.io/name"
LEADER_WORKER_GROUP_LABEL = "leaderworkerset.sigs.k8s.io/group-key"
JOB_SET_UNIT_LABEL = "jobset.sigs.k8s.io/job-key"
JOB_SET_TOPOLOGY_ANNOTATION = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOB_SET_NODE_SELECTOR_ANNOTATION = "alpha.jobset.sigs.k8s.io/node-selector"
"""With exclusive-topology: child Jobs select nodes by a label, and tolerate a taint, that people put there."""
JOB_SET_NODE_LABEL = "alpha.jobset.sigs.k8s.io/namespaced-job"
JOB_SET_NODE_TAINT = "alpha.jobset.sigs.k8s.io/no-schedule"
LEADER_WORKER_SUBGROUP_TOPOLOGY_ANNOTATION = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
LEADER_WORKER_SUBGROUP_LABEL = "leaderworkerset.sigs.k8s.io/subgroup-key"
LEADER_WORKER_TOPOLOGY_ANNOTATION = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""On the set: workers are made once the leader is on a node, in the domain of which they have to be."""
ARGO_WORKFLOW_LABEL = "workflows.argoproj.io/workflow"
"""On a pod: the name of its Workflow."""
SPARK_APPLICATION_LABEL = "sparkoperator.k8s.io/app-name"
"""On a pod, of the driver or an executor: the name of its SparkApplication."""
SPARK_CONNECT_LABEL = "sparkoperator.k8s.io/connect-name"
"""On a pod, of the server or an executor: the name of its SparkConnect."""
RAY_CLUSTER_LABEL = "ray.io/cluster"
"""On a pod: the name of its RayCluster."""
RAY_GROUP_LABEL = "ray.io/group"
RAY_NODE_TYPE_LABEL = "ray.io/node-type"

# Volcano
VOLCANO_SCHEDULER = "volcano"
ROOT_QUEUE, DEFAULT_QUEUE = "root", "default"
"""Queues that Volcano makes by itself."""
VOLCANO_JOB_NAME_LABEL = "volcano.sh/job-name"
VOLCANO_JOB_NAMESPACE_LABEL = "volcano.sh/job-namespace"
QUEUE_NAME_LABEL = "volcano.sh/queue-name"
TASK_LABEL = "volcano.sh/task-spec"
"""On a pod, as label or annotation: the task (role) of its job."""
TASK_INDEX_LABEL = "volcano.sh/task-index"
PARTITION_LABEL = "volcano.sh/partition-id"
NODE_GROUP_LABEL = "volcano.sh/nodegroup-name"
NODE_GROUP_LIMITS_ANNOTATION = "volcano.sh/nodegroup-resource-limits"
"""Of a Queue, since Volcano 1.16: the most that its pods may hold on the nodes of each group."""
"""On a node: the group by which queues choose nodes (plugin nodegroup)."""
TASK_PRIORITY_ANNOTATION = "volcano.sh/task-priority"
"""On a pod: Volcano places the pods of a job in its order, the highest first (plugin priority)."""
QUEUE_NAME_ANNOTATION = "scheduling.volcano.sh/queue-name"
GROUP_MIN_MEMBER_ANNOTATION = "scheduling.volcano.sh/group-min-member"
HIERARCHY_ANNOTATION = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS_ANNOTATION = "volcano.sh/hierarchy-weights"
DEFAULT_PODS_PER_NODE = 110
"""Pods of a node that states no number: the kubelet's default."""
ALWAYS_COMPARED = ("cpu", "memory")
"""Resources that Volcano compares for each pod, also for one that requests none: an overcommitted node takes no pod."""
SYSTEM_PRIORITIES: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The two priority classes that every Kubernetes cluster has."""
COLOCATED_MEMORY = "kubernetes.io/batch-memory"
"""Bytes that Volcano's agent lends to offline pods; their CPUs are thousandths, as kubernetes.io/batch-cpu."""
QOS_LEVEL_ANNOTATION = "volcano.sh/qos-level"
PREEMPTABLE_ANNOTATION = "volcano.sh/preemptable"
"""On a job or its pods: any value but a true one protects them from eviction."""
CHECKPOINT_ANNOTATION = "volcano.sh/last-checkpoint-time"
QUEUE_OVERCOMMIT_ANNOTATION, CROSS_QUOTA_PREFIX = "volcano.sh/overcommit-factor", "volcano.sh/crossquota-"
DEQUEUE_ANNOTATION = "volcano.sh/dequeue-strategy"
"""In designs and examples; no release of Volcano reads it."""
COOLDOWN_ANNOTATION = "volcano.sh/cooldown-time"
"""On a job or its pods: how long they run before the plugin cdp allows their eviction."""
TASK_AFFINITY_ANNOTATION = "volcano.sh/task-topology-affinity"
TASK_ANTI_AFFINITY_ANNOTATION = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER_ANNOTATION = "volcano.sh/task-topology-task-order"
WAITING_TIME_ANNOTATIONS = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
"""On a job: how long it may wait (plugin sla); Volcano reads the first that is there."""
NUMA_POLICY_ANNOTATION = "volcano.sh/numa-topology-policy"
NUMA_POLICIES = ("best-effort", "restricted", "single-numa-node")
VGPU_REGISTER_ANNOTATION = "volcano.sh/node-vgpu-register"
"""On a node: `id,shares,MiB,type,healthy,mode:` for each device."""
VGPU_ASSIGNMENT_ANNOTATION = "volcano.sh/vgpu-ids-new"
"""On a pod: `id,type,MiB,percent:` for each device, containers separated by `;`."""

# MetaX
METAX_PREFIX = "metax-tech.com/"
METAX_GROUP_SIZE_ANNOTATION = f"{METAX_PREFIX}gpu-group-size"
METAX_ATOMIC_GROUP_SIZE_ANNOTATION = f"{METAX_PREFIX}atomic-gpu-group-size"

ROLE_KEYS = (ROLE_MARK, TASK_LABEL, KUBEFLOW_ROLE_LABEL)
"""Labels or annotations that name a pod's role, the surest first."""
GROUP_INDEX_LABELS = ("leaderworkerset.sigs.k8s.io/group-index", "jobset.sigs.k8s.io/job-index")
"""Labels that number the group of a LeaderWorkerSet, or the child Job of a JobSet, that a pod is of."""
INDEX_LABELS = (TASK_INDEX_LABEL, KUBEFLOW_INDEX_LABEL, BATCH_INDEX_LABEL)
"""Labels or annotations that number a pod within its role."""
TOPOLOGY_MODE_ANNOTATION = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER_ANNOTATION = "volcano.sh/network-topology-highest-tier"
RAY_TOPOLOGY_TIER_LABEL = "volcano.sh/network-topology-highest-tier-allowed"
"""In addition to the label of TOPOLOGY_MODE_ANNOTATION's name, which KubeRay reads among the labels."""
KAI_QUEUE_LABEL = "kai.scheduler/queue"
KUEUE_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
QUEUE_KEYS = (QUEUE_NAME_LABEL, QUEUE_NAME_ANNOTATION)
PER_POD_LABELS = frozenset(
    (
        *INDEX_LABELS,
        PARTITION_LABEL,
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "statefulset.kubernetes.io/pod-name",
    )
)
"""Labels that controllers give each pod its own value of, or a value that only the cluster knows."""
JOB_NAME_LABELS: Mapping[str, tuple[tuple[str, str], ...]] = {
    VOLCANO_JOB_NAME_LABEL: (("Job", "batch.volcano.sh"),),
    KUBEFLOW_JOB_NAME_LABEL: tuple(
        (f"{kind}Job", "kubeflow.org") for kind in ("PyTorch", "TF", "MPI", "Paddle", "XGBoost", "JAX", "MX")
    ),
    **dict.fromkeys(BATCH_JOB_NAME_LABELS, (("Job", "batch"),)),
}
"""Label whose value is a job's name -> (kind, API group) of the jobs that set it."""

FINISHED_POD_PHASES = frozenset({"Succeeded", "Failed"})
FINISHED_JOB_PHASES = frozenset({"Completed", "Failed", "Terminated"})
"""Phases of a Volcano Job (and of a PodGroup) after which no pod starts. Aborted is not one: the job can be resumed."""
_ABORTED_JOB_PHASES = ("Aborting", "Aborted")
"""Phases of a Volcano Job of which no pod starts until somebody resumes it."""
FINISHED_CONDITION_TYPES = frozenset({"Complete", "Completed", "Succeeded", "Failed"})
"""Condition types by which Jobs of batch/v1 and of Kubeflow, and JobSets report their end."""


_NOTHING: Mapping[str, Any] = {}


def name_of(item: Object) -> str:
    return str(item["metadata"]["name"])


def namespace_of(item: Object) -> str:
    """Return the object's namespace, "default" where it names none."""
    return str(item["metadata"].get("namespace") or "default")


def labels_of(item: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = item.get("metadata", _NOTHING).get("labels") or {}
    return labels


def annotations_of(item: Object) -> Mapping[str, str]:
    annotations: Mapping[str, str] = item.get("metadata", _NOTHING).get("annotations") or {}
    return annotations


def is_suspended(item: Object) -> bool:
    """Return whether its owner keeps the reconciler from the object."""
    return annotations_of(item).get(SUSPEND_ANNOTATION) == "true"


def is_never_pruned(item: Object) -> bool:
    """Return whether the object stays in the cluster when it leaves the repository."""
    return annotations_of(item).get(PRUNE_ANNOTATION) == "disabled"


def uid_of(item: Object) -> str:
    return str(item.get("metadata", _NOTHING).get("uid") or "")


def api_group_of(item: Object) -> str:
    """Return the API group: "batch.volcano.sh" of batch.volcano.sh/v1alpha1, "" of v1."""
    return str(item.get("apiVersion", "")).rpartition("/")[0]


def controller_of(item: Object) -> Mapping[str, Any] | None:
    """Return the owner reference of the object's controller, else its first one; None where nothing owns it."""
    references = item["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), next(iter(references), None))


def marked_job(pod: Object) -> tuple[str, str] | None:
    """(Kind.group, name) of the job that the pod's template names; None where it names none."""
    group_kind, _, name = str(annotations_of(pod).get(JOB_MARK, "")).partition("/")
    return (group_kind, name) if name else None


def is_planned_job(item: Object) -> bool:
    """Return whether the object was written with a plan of its pods."""
    annotations = annotations_of(item)
    return PLACEMENT_ANNOTATION in annotations or WAITING_ANNOTATION in annotations


def created_at(item: Object) -> str:
    """Return the creation time, RFC 3339, in whole seconds; empty if the server has not set it."""
    return str(item["metadata"].get("creationTimestamp") or "")


def is_terminating(item: Object) -> bool:
    return bool(item["metadata"].get("deletionTimestamp"))


def status_of(item: Object) -> Mapping[str, Any]:
    """Nothing where it is not a mapping: the status of kinds that only pass through may be anything."""
    status = item.get("status")
    return status if isinstance(status, MAPPING_TYPES) else {}


def conditions_of(item: Object) -> Iterable[Mapping[str, Any]]:
    """Return the rows of a list; a JobFlow has a map there, of its steps, which are not conditions."""
    conditions = status_of(item).get("conditions")
    return [row for row in conditions if isinstance(row, MAPPING_TYPES)] if isinstance(conditions, list) else ()


def is_finished_pod(pod: Object) -> bool:
    return status_of(pod).get("phase") in FINISHED_POD_PHASES


def is_succeeded_pod(pod: Object) -> bool:
    return status_of(pod).get("phase") == "Succeeded"


def is_gated(pod: Object) -> bool:
    """Return whether the pod still carries gangplan's scheduling gate."""
    gates = (pod.get("spec") or _NOTHING).get("schedulingGates") or ()
    return bool(gates) and any(gate.get("name") == SCHEDULING_GATE for gate in gates)


def kubelet_labels(arch: str) -> dict[str, str]:
    """Return the labels that every kubelet of Linux sets, the node's name aside (pkg/kubelet, initialNode)."""
    return {label.format(key): value for key, value in (("os", "linux"), ("arch", arch)) for label in _PLATFORM_LABELS}


def assigned_node(pod: Object, node_of_hostname: Mapping[str, str]) -> str | None:
    """Return the pod's node: where it is bound, or the one whose hostname the reconciler selected when it lifted the
    gate."""
    return bound_node(pod) or node_of_hostname.get(selected_hostname(pod))


def bound_node(pod: Object) -> str:
    """Return the name of the pod's node, "" where it is not bound."""
    return str((pod.get("spec") or _NOTHING).get("nodeName") or "")


def selected_hostname(pod: Object) -> str:
    """Return the hostname that an ungated pod selects, "" where it selects none."""
    return "" if is_gated(pod) else str(((pod.get("spec") or {}).get("nodeSelector") or {}).get(HOSTNAME_LABEL, ""))


def is_ready_node(node: Object) -> bool:
    """Return whether the node is ready; one without a Ready condition counts as ready."""
    return all(row.get("status") == "True" for row in conditions_of(node) if row.get("type") == "Ready")


def final_phase(job: Object) -> str | None:
    """Return the final phase of a job or PodGroup, None while it can still run."""
    status = status_of(job)
    state = status.get("state")
    phase = state.get("phase") if isinstance(state, Mapping) else status.get("phase")
    if isinstance(phase, str) and phase in FINISHED_JOB_PHASES:
        return phase
    for row in conditions_of(job):
        if row.get("status") == "True" and str(row.get("type")) in FINISHED_CONDITION_TYPES:
            return "Failed" if row["type"] == "Failed" else "Completed"
    return None


def aborted_phase(job: Object) -> str:
    """Return the phase of a Volcano Job of which no pod starts until somebody resumes it; else an empty text."""
    state = status_of(job).get("state")
    phase = state.get("phase") if isinstance(state, Mapping) else None
    return str(phase) if phase in _ABORTED_JOB_PHASES and api_group_of(job) == "batch.volcano.sh" else ""


def stopped_by(job: Object) -> str:
    """Return why no pod of the job starts until somebody resumes it, by its live object; empty if there is no
    obstacle."""
    if phase := aborted_phase(job):
        return f"it was {phase.lower()} in the cluster, by a command or one of its policies: `vcctl job resume`"
    spec = job.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, Mapping) else None
    if any(isinstance(part, Mapping) and part.get("suspend") is True for part in (spec, policy)):
        return "it is suspended in the cluster, not by the repository: `suspend: false` there resumes it"
    return ""


HAMI_RESOURCES = {
    "nvidia.com/gpumem": "volcano.sh/vgpu-memory",
    "nvidia.com/gpumem-percentage": "volcano.sh/vgpu-memory-percentage",
    "nvidia.com/gpucores": "volcano.sh/vgpu-cores",
}
"""Part of GPUs that HAMi's scheduler reads in pods, and which no node offers -> the same for Volcano."""
