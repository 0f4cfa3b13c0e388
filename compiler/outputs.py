"""The JSON outputs of the commands as types, by which the views that fill them are checked. `gangplan schema
plan|check|diff|status` and a page of the reference are made from them.

Within a version of the interface fields are added, never renamed or removed. Amounts are numbers: cpu in cores, memory
in bytes, everything else as a count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from compiler.decided import JobAction, JobEffect

described = with_config(ConfigDict(use_attribute_docstrings=True))
"""On the types of `OUTPUTS`, from which the types inside them have it."""
Amounts = dict[str, int | float]
FactValue = str | int | float | bool | list[str]
Severity = Literal["error", "warning", "info"]
Verdict = Literal["proven", "within gap", "limit reached"]


class TextEditEntry(TypedDict):
    """Text that replaces what is from one place of a file to another. Places count from 1; the end is behind the last
    character."""

    file: str
    line: int
    column: int
    endLine: int
    endColumn: int
    text: str


class DiagnosticEntry(TypedDict):
    """One finding of `check`."""

    code: str
    """Stable code; `gangplan explain CODE` describes it."""
    severity: Severity
    file: str
    line: int
    """Counts from 1; 0 for a whole file."""
    column: int
    message: str
    """What is wrong. The words may change in any version."""
    help: str
    """How to fix it."""
    object: str
    """"Kind namespace/name", or empty."""
    fix: NotRequired[list[TextEditEntry]]
    """The edits that fix it, where that is certain."""


@described
class CheckDocument(TypedDict):
    """`gangplan check -o json`."""

    diagnostics: list[DiagnosticEntry]


class WindowEntry(TypedDict):
    """A window of start times, in UTC."""

    earliest: str
    latest: str


class StartWindowEntry(WindowEntry):
    """In which a waiting job is expected to start, by earlier run times; absent where too few are recorded."""

    share: NotRequired[int]
    """Percent of such windows that hold, by earlier ones; absent while too few of these are known."""
    promised: WindowEntry
    """The first one of the job."""
    moved: NotRequired[str]
    """Why it comes after all of the promised one."""


class SourceEntry(TypedDict):
    """An object of the repository or the cluster that a reason comes from."""

    object: str
    """Such as "Queue research"."""
    field: NotRequired[str]
    """The field; absent where the whole object is meant."""
    file: NotRequired[str]
    """Absent, as line and column, for what only the cluster knows."""
    line: NotRequired[int]
    column: NotRequired[int]


_Sourced = TypedDict("_Sourced", {"from": NotRequired[list[SourceEntry]]})


class MessageEntry(_Sourced):
    """A reason or a repair: its code, its sentence, and the values in it; which ones depends on the code. `from` has
    the objects that a reason comes from, or the places where a repair is made."""

    code: str
    message: str
    """The words may change in any version."""
    also: NotRequired[list[MessageEntry]]
    """Of a repair: the changes that must come with it, which `message` names too."""
    never: NotRequired[bool]
    """Of a reason: `true` when waiting cannot help."""
    seconds: NotRequired[int | float]
    """Of a repair that waits: seconds from now; of GR121 the duration."""
    at: NotRequired[str]
    """The same as a time in UTC."""
    role: NotRequired[str]
    subgroup: NotRequired[FactValue]
    queue: NotRequired[str]
    queues: NotRequired[list[str]]
    resource: NotRequired[str]
    hypernode: NotRequired[str]
    tier: NotRequired[int]
    policy: NotRequired[str]
    rule: NotRequired[FactValue]
    obstacle: NotRequired[FactValue]
    asked: NotRequired[FactValue]
    available: NotRequired[FactValue]
    limit: NotRequired[FactValue]
    held: NotRequired[FactValue]
    told: NotRequired[FactValue]
    gangs: NotRequired[list[str]]
    nodes: NotRequired[FactValue]
    nodeGroups: NotRequired[FactValue]
    annotation: NotRequired[str]
    written: NotRequired[FactValue]
    amount: NotRequired[FactValue]
    now: NotRequired[FactValue]
    edits: NotRequired[list[str]]
    """Of a repair: fields with the values to write."""


_Classed = TypedDict("_Classed", {"class": NotRequired[str]})


class ReasonEntry(MessageEntry, _Classed):
    """A reason or a repair; `class` is the priority class that a repair names."""


class CellEntry(TypedDict):
    """Pods that take a share of one part of a node. One way to do it, which proves that the pods fit; the kubelet and
    the device plugin choose for themselves."""

    role: str
    node: str
    division: str
    """`numa`, or the resource of a shared device."""
    cell: int
    """Its number in the node, from 0."""
    pods: int


class GangEntry(TypedDict):
    """One job."""

    apiVersion: str
    kind: str
    namespace: str
    name: str
    queue: str
    priority: int
    """The number that its class stands for."""
    decision: JobAction
    """`keep`: it runs, and may grow. `evict`: its running pods make room for others. `empty`: written with 0 pods."""
    pods: dict[str, dict[str, int]]
    """Role -> node -> pods, those that run already included."""
    domains: list[str]
    """The tier-1 hypernodes that the job touches."""
    reasons: list[ReasonEntry]
    """Why it waits."""
    repairs: list[ReasonEntry]
    """Changes that were tried and let it start."""
    evictedFor: list[str]
    """The jobs (`namespace/name`) that start because of its eviction."""
    startsAt: str | None
    """When the job for which room is reserved is expected to start, as a time in UTC."""
    startWindow: NotRequired[StartWindowEntry]
    bound: NotRequired[bool]
    """`false` where the pods go where their scheduler puts them and the plan only keeps their room."""
    written: NotRequired[dict[str, int]]
    """Role -> pods as written, of a service that may have more of them."""
    succeeded: NotRequired[dict[str, int]]
    """Role -> pods that completed and are not planned any more."""
    held: NotRequired[bool]
    """`true` for a waiting job that is not created meanwhile, since its queue's proportional share cannot take it."""
    dependentRoles: NotRequired[list[str]]
    """Roles whose pods the job's controller creates only once others run."""
    startsAfter: NotRequired[list[str]]
    """Of the job for which room is reserved: the jobs whose end it waits for."""
    cells: NotRequired[list[CellEntry]]
    """Of a job whose new pods take parts of nodes."""


class ObjectiveEntry(TypedDict):
    """One goal of a batch. `gap` is the distance between value and bound."""

    name: str
    value: int | float
    bound: int | float
    gap: int | float
    verdict: Verdict


class BatchEntry(TypedDict):
    """The jobs decided by one model."""

    gangs: list[str]
    verdict: Verdict
    objectives: list[ObjectiveEntry]
    seconds: float | None
    """Only with `--timings`."""


class QueueEntry(TypedDict):
    """One queue: resource -> amount."""

    name: str
    parent: str | None
    allocated: Amounts
    """Before the plan."""
    admitted: Amounts
    """By the plan, less what it evicts."""
    guarantee: Amounts
    deserved: Amounts
    """In effect: the share by weight with the plugin proportion, else as the plugin capacity reads it."""
    capability: Amounts
    share: int | float
    """Weighted dominant share after the plan."""


class TotalEntry(TypedDict):
    """One resource."""

    capacity: int | float
    """Of all nodes."""
    used: int | float
    """By all pods that run now."""
    planned: int | float
    """By the plan's jobs, running pods included."""


class LeftOutEntry(TypedDict):
    """A job, or a file under jobs/, that errors keep out of the plan."""

    apiVersion: NotRequired[str]
    kind: NotRequired[str]
    namespace: NotRequired[str]
    name: NotRequired[str]
    file: str
    diagnostics: list[DiagnosticEntry]


class PromiseEntry(TypedDict):
    """How start windows held that stated a share: `made` of recorded runs, a part `inside`. Others are `estimates`."""

    made: int
    estimates: int
    inside: float
    width: float
    """Median of the window's width over the job's wait."""
    error: int
    """Median distance of starts from the window's middle, in seconds."""
    errorByLimits: int | None
    """The same from the start by declared durations; null where none was known."""


@described
class PlanDocument(TypedDict):
    """`gangplan plan -o json`. Same inputs, same bytes, unless the time limit struck or `--timings` is given."""

    apiVersion: str
    kind: Literal["Plan"]
    cluster: str
    digest: str
    """Names the inputs: the files, and the state."""
    now: NotRequired[str]
    """From when the plan counts, in UTC; absent without a state."""
    gangs: list[GangEntry]
    """One for each job that could be read, by namespace, name and kind."""
    batches: list[BatchEntry]
    queues: list[QueueEntry]
    totals: dict[str, TotalEntry]
    promisedStarts: NotRequired[PromiseEntry]
    leftOut: NotRequired[list[LeftOutEntry]]
    clockStruck: NotRequired[bool]
    """`true` where the time limit cut the plan short, so that the same inputs may give another plan."""


_JobSources = TypedDict("_JobSources", {"from": NotRequired[list[SourceEntry]]})


class JobChangeEntry(_JobSources):
    """The effect on one job."""

    change: JobEffect
    """`later`: it waits as before, and is expected to start later. `reason`: it waits for another reason."""
    kind: str
    name: str
    queue: str
    why: str
    new: bool
    edited: bool
    never: bool
    takesEffect: NotRequired[str]
    """How an edit takes effect on a live object."""
    code: NotRequired[str]
    """Of the reason."""
    before: dict[str, dict[str, int]]
    after: dict[str, dict[str, int]]


class PositionEntry(TypedDict):
    """A position in a file."""

    file: str
    line: int
    column: int


class FindingEntry(TypedDict):
    """One finding of a comparison."""

    code: str
    severity: Severity
    position: PositionEntry
    message: str
    help: str
    object: str
    see: PositionEntry | None
    """A second place that belongs to the finding."""
    cause: str
    """The object whose errors are behind it."""


class ChangedFindingEntry(TypedDict):
    """One finding of which only a number differs."""

    before: FindingEntry
    after: FindingEntry


class FindingsEntry(TypedDict):
    """Findings of HEAD against BASE."""

    new: list[FindingEntry]
    changed: list[ChangedFindingEntry]
    mended: list[FindingEntry]
    """Fixed by the change."""


class QueueChangeEntry(TypedDict):
    """One queue that differs."""

    name: str
    before: dict[str, Any] | None
    """`null` where the queue does not exist."""
    after: dict[str, Any] | None
    above: list[str]
    """Resources of which it holds more than its new capability."""
    stay: list[str]
    """Jobs that run in a queue that is deleted."""


class ClusterDiffEntry(TypedDict):
    """The comparison of one cluster."""

    cluster: str
    rejected: bool
    """Whether the reconciler rejects HEAD, since it has errors."""
    errors: list[FindingEntry]
    baseErrors: int
    jobs: list[JobChangeEntry]
    cannotStartAgain: list[JobChangeEntry]
    """Jobs that keep running, and could not start again."""
    queues: list[QueueChangeEntry]
    scheduler: list[str]
    resources: list[str]
    """Sentences on nodes, network domains, priorities and the Cluster's fields."""
    objects: list[str]
    findings: FindingsEntry


@described
class DiffDocument(TypedDict):
    """`gangplan diff -o json`."""

    apiVersion: str
    kind: Literal["PlanDiff"]
    base: str
    head: str
    clusters: list[ClusterDiffEntry]


class ConditionEntry(TypedDict):
    """One condition, as in Kubernetes."""

    type: str
    status: str
    reason: str
    message: str
    lastTransitionTime: str


class StatusGangEntry(TypedDict):
    """One job of the plan in force."""

    kind: str
    namespace: str
    name: str
    queue: str
    decision: str
    domains: list[str]
    reasons: list[str]
    startsAt: str | None
    startWindow: NotRequired[StartWindowEntry]
    bound: NotRequired[bool]
    nodes: NotRequired[dict[str, int]]
    evictedFor: NotRequired[list[str]]


class HeldEntry(TypedDict):
    """An object that is not applied, and why."""

    object: str
    reason: str


class HistoryEntry(TypedDict):
    """Since when a job was decided like this, by the codes of its reasons."""

    since: str
    decision: str
    codes: list[str]


@described
class StatusDocument(TypedDict):
    """`gangplan status -o json`. head: of the branch. gangs: waiting ones first where a ConfigMap cannot hold all."""

    commit: str
    """In force; empty for none."""
    head: str
    digest: str
    """Of the plan."""
    conditions: list[ConditionEntry]
    gangs: list[StatusGangEntry]
    gangsTotal: int
    history: dict[str, list[HistoryEntry]]
    """Job that waits or has waited -> the last changes of its decision and of its reasons."""
    finished: dict[str, str]
    """Run that is over -> its phase."""
    records: list[dict[str, Any]]
    """What is known of the runs that ended last."""
    promisedStarts: NotRequired[PromiseEntry]
    suspended: list[str]
    finishedTotal: int
    held: list[HeldEntry]
    heldTotal: int
    diagnostics: list[str]


OUTPUTS: Mapping[str, Any] = {
    "check": CheckDocument,
    "diff": DiffDocument,
    "plan": PlanDocument,
    "status": StatusDocument,
}
"""Name of the command -> the type of its JSON."""
