"""A job's demands: its gangs, their roles and subgroups, and their topology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from compiler.fields.label_selector import LabelExpression
from compiler.fields.quantity import is_device
from compiler.specs.pod_spec import Amounts, PodSpec
from compiler.syntax.documents import Document, FieldPath


@dataclass(frozen=True, slots=True)
class ExclusiveUnits:
    """Units of `size` pods of the named roles, each alone in one domain of node label `key`, as an annotation at `path`
    requires (`compiler.specs.exclusive_topology`). job_label, unit_label: of the pods, the job's name and the unit's.
    obstacle: why no rule of the model expresses it; empty if one may."""

    key: str
    roles: tuple[str, ...]
    size: int
    job_label: str
    unit_label: str
    path: tuple[str | int, ...]
    obstacle: str = ""


ANTI_AFFINITY_PATH = ("spec", "topologyAffinity", "podGroupAntiAffinity")
"""Path in a PodGroup."""


@dataclass(frozen=True, slots=True)
class GroupTerm:
    """A term of a PodGroup's anti-affinity, at `path` of its document: it keeps out of the domains of a tier,
    given by number or by name, that hold PodGroups whose labels match the selector. namespaces: expressions on the
    labels of their namespaces; None for the PodGroup's own.
    weight: of a preferred term; 0 for a required one."""

    selector: tuple[LabelExpression, ...]
    namespaces: tuple[LabelExpression, ...] | None
    tier: int | None
    tier_name: str | None
    path: FieldPath
    weight: int = 0


@dataclass(frozen=True, slots=True)
class PodGroupSpec:
    """The PodGroup that is written for a gang, and its required and its preferred anti-affinity."""

    document: Document
    terms: tuple[GroupTerm, ...] = ()
    wishes: tuple[GroupTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class TopologySpec:
    """networkTopology as written: the highest tier by number or by name; neither means no limit."""

    mode: Literal["hard", "soft"]
    highest_tier: int | None = None
    highest_tier_name: str | None = None


@dataclass(frozen=True, slots=True)
class LiveRequests:
    """Different requests of a role's pods in the cluster: the number of such pods, and the template's requests."""

    pods: int
    template: Amounts


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """A role of a gang (Volcano: task): `replicas` equal pods, of which `minimum` must start.

    path: of the role in the document, e.g. ("spec", "tasks", 0). template_path: of its pod template. annotations: the
    template's. labels: those of all its pods, the controller's included. pod_documents: for a gang of bare pods the
    document of each pod of the role; both paths are then (). new_template: the value that binding writes at
    template_path where the document has none. later_pods: how many more pods each of the Jobs of Kubernetes runs, one
    for each that has succeeded, up to its completions. selector_paths: of pods without a template the possible objects
    of node selector, affinity and tolerations; each is read from the first that has it. unit: its pods are created so
    many at a time (groups, Jobs, hosts), as often as the number at unit_path. minimum_path: of the number of pods (of
    units, where it has some) below which its replicas may not be. live: where `pod` has the requests of the cluster's
    pods, and not the template's.
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

    def with_volumes(self) -> RoleSpec:
        """Return the role with pods for which their controller claims volumes."""
        return replace(self, pod=replace(self.pod, has_unplanned_needs=True))


@dataclass(frozen=True, slots=True)
class SubgroupSpec:
    """Subgroups of `size` pods of the named roles, of which at least `minimum` must start. path: the field that asks
    for them.

    ready_pods, min_ready_subgroups: for a bare PodGroup only, where each subgroup has a SubgroupSpec of its own, with
    all its pods as `size` and a minimum of 0: the pods that make it ready, and the number of subgroups of the same path
    that must be ready (`compiler.lower.gangs`).
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
    """Pods of a declared object that no plan places: `count` equal ones, or (on_each_node) one on each node that
    accepts it.

    path: of their pod spec in the document. labels: of the template. queue: in which Volcano counts them, "" for none.
    is_recurring: they are created and end by the clock. role: of the job that is planned without being bound, whose
    pods have room whatever the Cluster declares for others; "" for other pods.
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
        """Return whether there are more pods than that; the number of those on each node is unknown."""
        return self.on_each_node or self.count > number


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Who places the pods of a job, and whether at all.

    schedulable: false for a suspended job and for one of another scheduler. scheduler_name: the job's own, default
    included, where its kind has one, else "" (see the pods'). is_bound: its pods get the nodes of the plan. Pods of
    others are placed by their scheduler; they have room in the plan before anything else. Among these, is_recurring: it
    runs by the clock, and is nothing in between.
    """

    schedulable: bool = True
    scheduler_name: str = ""
    is_bound: bool = True
    is_recurring: bool = False


@dataclass(frozen=True, slots=True)
class Controller:
    """Facts about the controller of a job.

    pod_owners: Kind.group of possible objects between the job and its pods. marks_pods: its pod templates must name job
    and role, since its controller does not. dependent_roles: their pods appear only once others run. runs_once:
    declared by the Cluster for an otherwise unknown kind (`compiler.run_kinds`). written_pods: role -> pods, of a job
    whose controller may run more than that (a rolling update, an autoscaler); existing ones are planned.
    grows_in_units: above its minimum it starts a unit of all its roles at a time. writes_scheduler: binding names
    Volcano in pod templates that name no scheduler.
    """

    pod_owners: tuple[str, ...] = ()
    marks_pods: bool = False
    dependent_roles: tuple[str, ...] = ()
    runs_once: bool = False
    written_pods: Mapping[str, int] = field(default_factory=dict)
    grows_in_units: bool = False
    writes_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Times that a job declares, in seconds: its submission, since the epoch, and its expected duration."""

    submitted_at: int | None = None
    expected_duration: int | None = None


@dataclass(frozen=True, slots=True)
class FlowStep:
    """A step of a JobFlow. flow: the object whose controller makes the job once the awaited jobs of its namespace are
    completed."""

    flow: Document
    awaited_jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GangSpec:
    """A job of any kind.

    queue: the cluster's default queue where the job names none. field_paths: paths of the fields that messages name
    ("queue", "minimum", "success", "priority_class", "topology"). succeeded_pods: role -> pods that have ended well and
    do not come back; they are not among the role's `replicas`. exclusive: its units that share a domain with no others.
    pod_group: the PodGroup that is written for it, where no controller makes it. step: None for a job that no JobFlow
    makes.
    """

    document: Document
    queue: str
    priority_class: str | None
    minimum: int
    roles: tuple[RoleSpec, ...]
    topology: TopologySpec | None = None
    subgroups: tuple[SubgroupSpec, ...] = ()
    field_paths: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    times: JobTimes = JobTimes()
    succeeded_pods: Mapping[str, int] = field(default_factory=dict)
    scheduling: Scheduling = Scheduling()
    controller: Controller = Controller()
    step: FlowStep | None = None
    exclusive: tuple[ExclusiveUnits, ...] = ()
    pod_group: PodGroupSpec | None = None

    def with_scheduling(self, **changes: Any) -> GangSpec:
        return replace(self, scheduling=replace(self.scheduling, **changes))

    def with_controller(self, **changes: Any) -> GangSpec:
        return replace(self, controller=replace(self.controller, **changes))

    @property
    def namespace(self) -> str:
        """A job that names none is in "default"."""
        return self.document.namespace or "default"

    @property
    def key(self) -> JobKey:
        return self.namespace, self.document.name, self.document.kind

    @property
    def requests(self) -> Counter[str]:
        """Return the requests of all its pods, by resource."""
        found = Counter[str]()
        for role in self.roles:
            found.update({name: amount * role.replicas for name, amount in role.pod.requests.items()})
        return found

    @property
    def devices(self) -> int:
        """Return how many devices of any kind all its pods request."""
        return sum(amount for name, amount in self.requests.items() if is_device(name))

    @property
    def pod_documents(self) -> tuple[Document, ...]:
        """Return the documents of its bare pods, role by role."""
        return tuple(document for role in self.roles for document in role.pod_documents)

    def pod_spec_of(self, role: RoleSpec) -> tuple[Document, tuple[str | int, ...]]:
        """Return the document and the path of the role's pod spec: of its template, or of the first of its bare
        pods."""
        if role.pod_documents:
            return role.pod_documents[0], ("spec",)
        return self.document, (*role.template_path, "spec")
