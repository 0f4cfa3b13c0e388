"""Specs: what the documents of a cluster say, independent of their kinds.

The kinds (`compiler.kinds`) make specs of documents, the checks examine them, and lowering turns them into a
`solver.problem.Problem`. Amounts are integers: cpu in millicores, all else in whole units (bytes, devices, pods),
requests rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from compiler.diagnostics import Diagnostic
from compiler.specs.parts import ExclusiveUnits as ExclusiveUnits
from compiler.specs.parts import VgpuRequest as VgpuRequest
from compiler.syntax.documents import Document

Amounts = Mapping[str, int]
QuotaOrder = Literal["queues-first", "priorities-first"]
ServiceBinding = Literal["on-request", "devices", "all"]
"""Services that are bound: those that name Volcano, a queue or a gang; also those that ask for devices; all."""


@dataclass(frozen=True, slots=True)
class Expression:
    """One row of a node selector term: `key operator values`; Gt and Lt have one value.

    Like, Unlike: not Kubernetes', but Volcano's, of the cards of a node, which a label lists with commas: one of them
    has one of the values in its name, or none, case aside. A node without the label is not known to differ.
    """

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like", "Unlike"]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """A term of which all expressions, on labels and on fields (metadata.name), must hold."""

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


TOLERATE_ALL = (Toleration(operator="Exists"),)


@dataclass(frozen=True, slots=True)
class PodSelector:
    """The pods that a pod rule selects.

    label_expressions: rows (label, operator, values) that all hold; None selects no pod, as in Kubernetes. namespaces:
    () is the pod's own, None is all. match_label_keys, mismatch_label_keys: labels of the pod's own value, or another.
    """

    label_expressions: tuple[tuple[str, str, tuple[str, ...]], ...] | None
    namespaces: tuple[str, ...] | None = ()
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


UNREACHABLE_MIN_DOMAINS = 2**31
"""More domains than there can be: then at most max_skew pods of a spread rule are in one."""


@dataclass(frozen=True, slots=True)
class PodRuleSpec:
    """A required rule about other pods, in the domains that the values of node label `topology_key` form.

    rule_kind: affinity to the pods that match all selectors, anti-affinity, or topology spread (DoNotSchedule).
    max_skew, min_domains, honors_affinity, honors_taints: of a topology spread constraint; with the last two, nodes
    that the pod's own affinity or tolerations exclude do not count.
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
    """What one pod requires of a node.

    requests: by Kubernetes' rule for containers, init containers, sidecars and overhead; "pods" is 1. node_affinity:
    the required terms, of which one must hold; None for no requirement. scheduler_name: empty where the pod names none.
    node_name: spec.nodeName, which bypasses every scheduler. guaranteed_qos: QoS class Guaranteed. vgpu_requests: one
    for each container with virtual GPUs. topology_policy: of a Volcano task, "" for none. never_preempts:
    preemptionPolicy Never. has_unplanned_needs: host ports, volumes that a claim stands behind, or devices claimed by
    DRA, which only the scheduler knows about. several_containers: it has more than one, init containers among them.
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
    never_preempts: bool = False
    priority_class: str = ""
    has_unplanned_needs: bool = False
    several_containers: bool = False


@dataclass(frozen=True, slots=True)
class TopologySpec:
    """networkTopology as written: the highest tier by number or by name; neither means no limit."""

    mode: Literal["hard", "soft"]
    highest_tier: int | None = None
    highest_tier_name: str | None = None


@dataclass(frozen=True, slots=True)
class LiveRequests:
    """That the cluster's pods of a role ask for other than their template: how many do, and what the template says."""

    pods: int
    template: Amounts


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """A role of a gang (Volcano: task): `replicas` equal pods, of which `minimum` must start.

    path: of the role in the document, e.g. ("spec", "tasks", 0). template_path: of its pod template. annotations: the
    template's. labels: those of all its pods, the controller's included. pod_documents: for a gang of bare pods the
    document of each pod of the role; both paths are then (). new_template: what binding puts at template_path where the
    document has nothing there. later_pods: how many more each of the Jobs of Kubernetes that make the pods runs, one
    for each that has ended well, up to its completions. selector_paths: of pods without a template the objects in which
    node selector, affinity and tolerations may stand; each is taken from the first that has it. unit: its pods come so
    many at a time (groups, Jobs, hosts), as often as unit_path says. minimum_path: of the number of pods (of units,
    where it has some) below which its replicas may not be. live: where `pod` asks for what the cluster's pods do, and
    not for what the template says.
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
    new_template: Mapping[str, Any] | None = None
    later_pods: int = 0
    selector_paths: tuple[tuple[str | int, ...], ...] = ()
    unit: int = 1
    unit_path: tuple[str | int, ...] = ()
    minimum_path: tuple[str | int, ...] = ()
    live: LiveRequests | None = None


@dataclass(frozen=True, slots=True)
class SubgroupSpec:
    """Subgroups of `size` pods of the named roles, of which at least `minimum` must start. path: the field that asks
    for them.

    ready_pods, min_ready_subgroups: for a bare PodGroup only, where each subgroup has a SubgroupSpec of its own, with
    all its pods as `size` and a minimum of 0: the pods that make it ready, and the number of subgroups of the same path
    that must be ready (`compiler.lower.subgroups`).
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
class UnplannedPods:
    """Pods of a declared object that no plan places: `count` equal ones, or (on_each_node) one on each node that takes
    it.

    path: of their pod spec in the document. labels: of the template. queue: that Volcano counts them in, "" for none.
    is_recurring: they come and go by the clock. role: of the job that is planned without being bound, whose pods have
    room whatever the Cluster says of others; "" for other pods.
    """

    document: Document
    path: tuple[str | int, ...]
    count: int
    pod: PodSpec
    labels: Mapping[str, str] = field(default_factory=dict)
    queue: str = ""
    on_each_node: bool = False
    is_recurring: bool = False
    role: str = ""

    @property
    def key(self) -> JobKey:
        return self.document.namespace or "default", self.document.name, self.document.kind

    def has_more_than(self, number: int) -> bool:
        """Whether there are more pods than that; of those on each node there is no known number."""
        return self.on_each_node or self.count > number


@dataclass(frozen=True, slots=True)
class GangSpec:
    """A job of any kind.

    queue: the cluster's default queue where the job names none. submitted_at: seconds since the epoch, None if unknown.
    schedulable: false for a suspended job and for one of another scheduler. field_paths: paths of the fields that
    messages name ("queue", "minimum", "success", "priority_class", "topology"). scheduler_name: the job's own, default
    included, where its kind has one, else "" (see the pods'). pod_owners: Kind.group of the objects that may stand
    between the job and its pods. marks_pods: its pod templates are to say job and role, since its controller does not.
    dependent_roles: their pods appear only once others run. runs_once: said by the Cluster of a kind that is not known
    otherwise (`compiler.run_kinds`).
    made_by: the object whose controller makes the job once `awaited_jobs` of its namespace are completed.
    is_bound: its pods get the nodes of the plan. Those of others go where their scheduler puts them; they have room in
    the plan before anything else. Of these, is_recurring: it runs by the clock, and is nothing in between.
    writes_scheduler: binding names Volcano in pod templates that name no scheduler. written_pods: role -> pods, of a
    job whose controller may run more than that (a rolling update, an autoscaler); those that are there are planned.
    succeeded_pods: role -> pods that have ended well and do not come back; they are not among the role's `replicas`.
    grows_in_units: above its minimum it starts a unit of all its roles at a time. exclusive: its units that share a
    domain with no others.
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
    pod_owners: tuple[str, ...] = ()
    marks_pods: bool = False
    dependent_roles: tuple[str, ...] = ()
    runs_once: bool = False
    made_by: Document | None = None
    awaited_jobs: tuple[str, ...] = ()
    is_bound: bool = True
    is_recurring: bool = False
    writes_scheduler: bool = False
    written_pods: Mapping[str, int] = field(default_factory=dict)
    succeeded_pods: Mapping[str, int] = field(default_factory=dict)
    grows_in_units: bool = False
    exclusive: tuple[ExclusiveUnits, ...] = ()

    @property
    def namespace(self) -> str:
        """A job that names none is in "default"."""
        return self.document.namespace or "default"

    @property
    def key(self) -> JobKey:
        return self.namespace, self.document.name, self.document.kind

    @property
    def pod_documents(self) -> tuple[Document, ...]:
        """The documents of its bare pods, role by role."""
        return tuple(document for role in self.roles for document in role.pod_documents)

    def pod_spec_of(self, role: RoleSpec) -> tuple[Document, tuple[str | int, ...]]:
        """The document and the path of the role's pod spec: of its template, or of the first of its bare pods."""
        if role.pod_documents:
            return role.pod_documents[0], ("spec",)
        return self.document, (*role.template_path, "spec")


@dataclass(frozen=True, slots=True)
class NodeGroupAffinity:
    """A queue's spec.affinity: the node groups that it requires, prefers, and of anti-affinity."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue as its document describes it.

    open: whether jobs may start, unless the cluster says otherwise. hierarchy: Volcano's annotations as (name, weight)
    pairs without the root. strict_order: jobs start in their order only. dedicated_domains: (number, tier by number or
    name) of the hypernodes kept for the queue.
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
    affinity: NodeGroupAffinity | None = None


@dataclass(frozen=True, slots=True)
class PriorityClassSpec:
    """A Kubernetes PriorityClass."""

    document: Document
    name: str
    value: int
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


@dataclass(frozen=True, slots=True)
class NumaSpec:
    """The NUMA nodes of a node.

    topology_policy: of the kubelet's topology manager. static_cpus: its CPU manager assigns whole CPUs. slots: what
    each NUMA node offers of the divided resources. free_slots: what is free of it where the cluster reports it.
    """

    topology_policy: str
    static_cpus: bool
    slots: tuple[Amounts, ...]
    free_slots: tuple[Amounts, ...] | None = None


@dataclass(frozen=True, slots=True)
class NumaTopologySpec:
    """Volcano's Numatopology: the NUMA nodes of the node of the same name."""

    document: Document
    name: str
    numa: NumaSpec


@dataclass(frozen=True, slots=True)
class SharedDeviceSpec:
    """Devices of a node that pods share.

    resource: requests a part of one device. whole_resource: requests whole devices, "" for none. devices: (id, offered
    amounts), in the node's order. unhealthy: how many more there are, which nobody gets for now.
    """

    resource: str
    whole_resource: str
    devices: tuple[tuple[str, Amounts], ...]
    unhealthy: int = 0


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A Node object, or one node of a NodePool (then `document` is the pool's). maintenance_windows: (from, to) in
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
    """A HyperNode object, or one of a NodePool, with its members resolved to sorted names of existing nodes and
    hypernodes."""

    document: Document
    name: str
    tier: int
    tier_name: str | None
    nodes: tuple[str, ...]
    hypernodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """A plugin of a scheduler tier: its arguments and its enable... flags."""

    name: str
    arguments: Mapping[str, Any]
    flags: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class SchedulerSpec:
    """volcano-scheduler.conf, from a SchedulerConfiguration, a raw ConfigMap, a file, or the values of a Helm chart.

    name, namespace: the ConfigMap's. configurations: of each action the one that counts, its first.
    configuration_entries: all of them, with their place in the list. raw_text: the file as Volcano reads it, None for a
    SchedulerConfiguration. base_path: of actions, tiers and so on in the document, whose positions include a raw text.
    custom_plugins: plugin of a vendor's build -> argument -> type (int, float, bool, string). is_emitted: false where
    another tool makes the ConfigMap. is_partial: some of it cannot be read, so that nothing may be called missing.
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
    configuration_entries: tuple[tuple[int, str, Mapping[str, Any]], ...] = ()
    is_emitted: bool = True
    is_partial: bool = False

    @property
    def plugins(self) -> Iterator[PluginSpec]:
        """The plugins of all tiers."""
        return chain.from_iterable(self.tiers)

    def plugin(self, name: str) -> PluginSpec | None:
        """The plugin of this name; of one that is listed twice the first counts. None where it is not listed."""
        return next((plugin for plugin in self.plugins if plugin.name == name), None)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The Cluster object, or an empty one of the folder's name at its first line, which is not in `Specs.documents`.

    gap: relative MIP gap at which an objective may stop; 0 requires a proof. time_limit: seconds, the last safety.
    patience: seconds after which a waiting job is overdue and precedes the others of its priority. order: whether what
    queues are entitled to or jobs' priorities come first. unplanned: whether declared pods that no plan places take
    room in the plan. services: which services are bound to the plan's nodes. allow_privileged: whether the API server
    takes privileged containers; None: the Cluster does not say, which is taken for yes. scheduler_plugins: plugin of a
    vendor's build -> argument -> type.
    """

    document: Document
    name: str
    binding: Literal["gated", "static"] = "gated"
    default_queue: str = "default"
    gap: float = 0.0
    time_limit: float = 60.0
    max_waiting_pods: int = 1000
    patience: int = 86_400
    order: QuotaOrder = "queues-first"
    unplanned: Literal["reserve", "ignore"] = "ignore"
    services: ServiceBinding = "devices"
    allow_privileged: bool | None = None
    scheduler_plugins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Specs:
    """Everything read for one cluster, each tuple sorted by (namespace, name, kind), nodes and hypernodes naturally by
    name.

    documents: all well-formed documents, of any kind. A document with an error is in no tuple but this one.
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
    unplanned_pods: tuple[UnplannedPods, ...] = ()
