"""What the user's documents say, in the field's terms and independent of the kind that said it.

The kinds (one file each in `compiler.kinds`) make these out of documents; the checks judge them; lowering turns them
into a `solver.Problem`. Amounts are integers: cpu in millicores, everything else in whole units (bytes, devices, pods),
requests rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from compiler.diagnostics import Diagnostic
from compiler.syntax.documents import Document

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Expression:
    """One row of a node selector term, a Gt or Lt being one as well: `key operator values`."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """All expressions on labels and on fields (metadata.name) must hold."""

    label_expressions: tuple[Expression, ...] = ()
    field_expressions: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Which other pods a rule is about. selector: rows (label, operator, values) that all hold; None matches no pod, as
    in Kubernetes.

    namespaces: () is the pod's own, None is all. match_keys, mismatch_keys: labels in which they are like the pod
    itself, or unlike it.
    """

    label_expressions: tuple[tuple[str, str, tuple[str, ...]], ...] | None
    namespaces: tuple[str, ...] | None = ()
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodRuleSpec:
    """What a pod requires of the pods around it, in the domains that the values of node label `key` make.

    together: required affinity, to pods that match all terms. apart: required anti-affinity. even: topology spread that
    forbids; skew and least_domains are maxSkew and minDomains, minds_affinity and minds_taints say whether it leaves
    out nodes that the pod could not go to for these.
    """

    rule_kind: Literal["anti-affinity", "affinity", "spread"]
    topology_key: str
    selectors: tuple[PodSelector, ...]
    max_skew: int = 1
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class PodSpec:
    """What one pod asks of a node. `requests` follow Kubernetes' rule for containers, init containers, sidecars and
    overhead; "pods" is 1.

    affinity: required node affinity, terms are alternatives; None when nothing is required. tolerations and selector as
    in Kubernetes. scheduler: schedulerName of the pod, empty when it names none. node_name: spec.nodeName, which goes
    past every scheduler. rules: what it requires of other pods. guaranteed: the pod's QoS class. vgpus: for each
    container that asks for some. topology_policy: of a Volcano task, "" for none.
    """

    requests: Amounts
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduler_name: str = ""
    node_name: str = ""
    pod_rules: tuple[PodRuleSpec, ...] = ()
    guaranteed_qos: bool = False
    vgpu_requests: tuple[VgpuRequest, ...] = ()
    topology_policy: str = ""


@dataclass(frozen=True, slots=True)
class VgpuRequest:
    """What one container asks of Volcano's virtual GPUs: `number` devices, of each `memory` MiB (where that is 0
    `percentage` of it) and `cores` percent."""

    number: int
    memory: int
    percentage: int
    cores: int


@dataclass(frozen=True, slots=True)
class TopologySpec:
    """networkTopology as written; `highest_tier_name` is an alternative to the number. None, None: no limit."""

    mode: Literal["hard", "soft"]
    highest_tier: int | None = None
    highest_tier_name: str | None = None


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """path: where the role stands in the document, e.g. ("spec", "tasks", 0). template: path of its pod template.

    annotations: of the pod template. labels: those that all its pods have, the controller's own included. pods: only
    for a gang of bare pods, the document of each pod of the role; `path` and `template` are then ().
    """

    name: str
    replicas: int
    minimum: int
    pod: PodSpec
    path: tuple[str | int, ...]
    template_path: tuple[str | int, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod_documents: tuple[Document, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubgroupSpec:
    """Parts of `size` pods of the named roles, at least `minimum` of them. path: the field that asked for it.

    ready, wanted: only for the subgroups of a bare PodGroup, where each stands alone with all its pods as `size` and
    minimum 0: so many of its pods make it ready, and so many subgroups of the same path have to be (`lower.parts`).
    """

    name: str
    roles: tuple[str, ...]
    size: int
    minimum: int
    topology: TopologySpec
    path: tuple[str | int, ...]
    ready_pods: int = 0
    min_ready_subgroups: int = 0


JobKey = tuple[str, str, str]
"""(namespace, name, kind) of a job."""


@dataclass(frozen=True, slots=True)
class GangSpec:
    """A job of any kind. `priority` is None until a PriorityClass gives it. submitted_at: seconds since the epoch, None
    when unknown.

    queue: the cluster's default queue when the job names none. paths: where the fields that messages speak of stand in
    the document ("queue", "minimum", "priority_class", "topology"). schedulable: false for a job that its owner
    suspended, or that another scheduler places. scheduler: schedulerName of the job itself where its kind has one,
    default included; empty otherwise (then see the pods').
    """

    document: Document
    queue: str
    priority_class: str | None
    minimum: int
    roles: tuple[RoleSpec, ...]
    topology: TopologySpec | None = None
    subgroups: tuple[SubgroupSpec, ...] = ()
    submitted_at: int | None = None
    expected_duration: int | None = None
    schedulable: bool = True
    field_paths: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    scheduler_name: str = ""

    @property
    def namespace(self) -> str:
        """A job that names none is in "default"."""
        return self.document.namespace or "default"

    @property
    def key(self) -> JobKey:
        return self.namespace, self.document.name, self.document.kind


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """open: what the document says; a cluster may know better. hierarchy: Volcano's annotations as (name, weight)
    pairs, the root left out.

    strict: its jobs start in their order. domains: (how many, of which tier by number or name) hypernodes are
    guaranteed to it whole.
    """

    document: Document
    name: str
    parent: str | None
    weight: int
    priority: int
    guarantee: Amounts
    deserved: Amounts
    capability: Amounts
    reclaimable: bool = True
    open: bool = True
    hierarchy: tuple[tuple[str, float], ...] = ()
    strict_order: bool = False
    dedicated_domains: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class PriorityClassSpec:
    document: Document
    name: str
    value: int
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


@dataclass(frozen=True, slots=True)
class NumaSpec:
    """The NUMA cells of a node. policy: of the kubelet's topology manager. static: its CPU manager hands out whole
    CPUs.

    cells: what each offers of the resources that are divided. free: what is left of those of them that the cluster
    speaks of, None where it says nothing.
    """

    topology_policy: str
    static_cpus: bool
    slots: tuple[Amounts, ...]
    free_slots: tuple[Amounts, ...] | None = None


@dataclass(frozen=True, slots=True)
class NumaTopologySpec:
    """Volcano's Numatopology: the NUMA cells of the node of its name."""

    document: Document
    name: str
    numa: NumaSpec


@dataclass(frozen=True, slots=True)
class SharedDeviceSpec:
    """Devices of a node of which pods take parts. resource: by which they ask for a part of one; whole: for whole ones,
    "" for none.

    devices: (id, what one offers), in the order of the node.
    """

    resource: str
    whole_resource: str
    devices: tuple[tuple[str, Amounts], ...]


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A Node object, or one node that a NodePool makes (then `document` is the pool's). maintenance: (from, to) in
    seconds since the epoch."""

    document: Document
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    unschedulable: bool = False
    numa: NumaSpec | None = None
    shared_devices: tuple[SharedDeviceSpec, ...] = ()
    maintenance_windows: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class HyperNodeSpec:
    """A HyperNode object, or one that a NodePool makes.

    Members are resolved against the nodes and hypernodes that exist: names, sorted. Problems of the tree are
    diagnostics, never an exception.
    """

    document: Document
    name: str
    tier: int
    tier_name: str | None
    nodes: tuple[str, ...]
    hypernodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PluginSpec:
    name: str
    arguments: Mapping[str, Any]
    flags: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class SchedulerSpec:
    """volcano-scheduler.conf, from our SchedulerConfiguration or from a raw ConfigMap (`raw`: its text as it stands).

    name, namespace: the ConfigMap's. base: where actions, tiers and so on stand in the document; the marks of
    `document` reach into a raw text. custom_plugins: plugins of a vendor's build -> argument -> type (int, float, bool,
    string).
    """

    document: Document
    name: str
    namespace: str
    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginSpec, ...], ...]
    configurations: Mapping[str, Mapping[str, Any]]
    metrics: Mapping[str, str] = field(default_factory=dict)
    raw_text: str | None = None
    base_path: tuple[str | int, ...] = ("spec",)
    custom_plugins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Our Cluster kind. gap: relative MIP gap at which an objective may stop; 0 asks for a proof. time_limit: seconds,
    the last safety. patience: seconds after which a waiting job is decided before the others of its priority.

    document: when nobody wrote one, an empty Cluster of the folder's name at the folder's first line, that is not among
    `Specs.documents`.
    """

    document: Document
    name: str
    binding: Literal["gated", "static"] = "gated"
    default_queue: str = "default"
    gap: float = 0.0
    time_limit: float = 60.0
    max_waiting_pods: int = 1000
    patience: int = 86_400


@dataclass(frozen=True, slots=True)
class Specs:
    """Everything that was read for one cluster. Each tuple is sorted by (namespace, name, kind) of its documents, nodes
    and hypernodes naturally by name.

    documents: all well-formed documents, also those of kinds that gangplan passes through (Service, ConfigMap ...). A
    document with an error is in no other tuple than `documents`.
    """

    cluster: ClusterSpec
    documents: tuple[Document, ...]
    gangs: tuple[GangSpec, ...]
    queues: tuple[QueueSpec, ...]
    priority_classes: tuple[PriorityClassSpec, ...]
    nodes: tuple[NodeSpec, ...]
    hypernodes: tuple[HyperNodeSpec, ...]
    scheduler: SchedulerSpec | None
    diagnostics: tuple[Diagnostic, ...]
