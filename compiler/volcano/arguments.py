"""Every argument of Volcano's actions and plugins: type, default, range, meaning, where it is read and since when.

A page of the reference is made of this table, `gangplan explain plugin.argument` answers from it, and the checks
GP4xx judge by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compiler.diagnostics.diagnostic import did_you_mean
from compiler.volcano.nested_arguments import MISTYPES as NESTED_MISTYPES
from compiler.volcano.nested_arguments import ROWS

FIRST_VERSION = 15
"""The first minor version of Volcano 1.x that gangplan knows."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an action or a plugin.

    name: ends in `<...>` for a family. type_name: int, float, bool, string, list, map, duration or window. low, high:
    the range that makes sense. is_enforced: outside it the default counts; else Volcano computes with it. mistype: what
    a value of another type does: "default" (a line in the log, the default counts), "stops" (the scheduler ends),
    "ignored" (not a word); "unread" for an argument that Volcano documents and does not read.
    """

    name: str
    type_name: str
    default: str
    low: float | None
    high: float | None
    is_enforced: bool
    mistype: str
    meaning: str
    since: int = FIRST_VERSION

    @property
    def is_read(self) -> bool:
        return self.mistype != "unread"

    @property
    def family(self) -> str:
        """The common beginning of a family of arguments; empty for a single one."""
        return self.name.partition("<")[0] if self.name.endswith(">") else ""

    @property
    def allowed(self) -> str:
        """The range in words; empty where any value of the type is taken."""
        if self.low is None:
            return ""
        return f"{self.low:g} to {self.high:g}" if self.high is not None else f"{self.low:g} or more"


@dataclass(frozen=True, slots=True)
class ArgumentOwner:
    """An action or a plugin with its arguments. source: the function of Volcano that reads them, under pkg/scheduler.
    since: the minor version of Volcano 1.x that has it first."""

    name: str
    is_action: bool
    source: str
    since: int
    arguments: tuple[Argument, ...] = ()


# Columns: name, type, default, range (! where the default counts outside of it), what another type does, meaning, and
# the version where that is not the first known one.
_TABLE = """
action allocate | actions/allocate/allocate.go parseArguments
predicateErrorCacheEnable | bool | true | | default | remember why a node refused one pod of a role, and refuse it to its siblings without asking again

action backfill | actions/backfill/backfill.go parseArguments
predicateErrorCacheEnable | bool | true | | default | as of allocate

action reclaim | actions/reclaim/reclaim.go parseArguments
predicateErrorCacheEnable | bool | true | | default | as of allocate

action preempt | actions/preempt/preempt.go parseArguments
predicateErrorCacheEnable | bool | true | | default | as of allocate
enableTopologyAwarePreemption | bool | false | | default | try evictions on candidate nodes with the pods' affinity; nothing to do with HyperNodes
topologyAwarePreemptWorkerNum | int | 16 | 1.. | default | nodes tried at a time
minCandidateNodesPercentage | int | 10 | 0..100 | default | least share of the nodes that become candidates
minCandidateNodesAbsolute | int | 1 | 0.. | default | least number of candidates
maxCandidateNodesAbsolute | int | 100 | 1.. | default | most candidates

action gangpreempt | actions/gangpreempt/gangpreempt.go parseArguments
maxDomains | int | 8 | 1..! | default | most domains that are tried for one gang
allowWholeBundle | bool | true | | default | evict whole jobs too, not only pods above their minima

action gangreclaim | actions/gangreclaim/gangreclaim.go parseArguments
maxDomains | int | 8 | 1..! | default | most domains that are tried for one gang
allowWholeBundle | bool | true | | default | evict whole jobs too, not only pods above their minima

action init-params | plugins/deviceshare/devices/ascend/310p/vnpu/init_policy.go getConfigurationByKey
grace-over-time | string | 900 | | ignored | Ascend's virtual NPUs: seconds of grace
presetVirtualDevice | string | true | | ignored | Ascend: "false" divides NPUs as jobs ask for it

plugin priority | plugins/priority/priority.go New
plugin gang | plugins/gang/gang.go New
plugin conformance | plugins/conformance/conformance.go New
plugin drf | plugins/drf/drf.go New
plugin proportion | plugins/proportion/proportion.go New
plugin cdp | plugins/cdp/cdp.go New
plugin pdb | plugins/pdb/pdb.go New
plugin resourcequota | plugins/resourcequota/resourcequota.go New

plugin capacity | plugins/capacity/capacity.go New, parseArguments
ancestorReclaimLevel | int | 0 | 0..! | default | with enableHierarchy: how many levels of ancestors must be above what they deserve before a queue gives back
capacity.DynamicResourceAllocationEnable | bool | Kubernetes' feature gate | | default | count device classes (DRA) against queues
capacity.DRAConsumableCapacityEnable | bool | Kubernetes' feature gate | | default | count consumable capacity of DRA devices

plugin overcommit | plugins/overcommit/overcommit.go OnSessionOpen
overcommit-factor | float | 1.2 | 1..! | default | jobs get pods while their minima are below this many times the cluster, less what is used

plugin sla | plugins/sla/sla.go OnSessionOpen
sla-waiting-time | duration | none | | ignored | after this time a job is let in and may hold room piece by piece

plugin predicates | plugins/predicates/predicates.go enablePredicate, helper.go
predicate.NodeAffinityEnable | bool | true | | default | keep node selectors and node affinity
predicate.NodePortsEnable | bool | true | | default | keep host ports apart
predicate.TaintTolerationEnable | bool | true | | default | keep pods off nodes whose taints they do not tolerate
predicate.PodAffinityEnable | bool | true | | default | keep affinity between pods
predicate.NodeVolumeLimitsEnable | bool | true | | default | keep the nodes' limits of volumes
predicate.VolumeZoneEnable | bool | true | | default | keep volumes in their zone
predicate.PodTopologySpreadEnable | bool | true | | default | keep topology spread constraints
predicate.VolumeBindingEnable | bool | true | | default | bind volumes with the pods
predicate.CacheEnable | bool | false | | default | remember the answers for equal pods
predicate.DynamicResourceAllocationEnable | bool | | | unread | Kubernetes' feature gate DynamicResourceAllocation decides
volumebinding.weight | int | 1 | 0.. | stops | weight of the score of volumes
volumebinding.bindTimeoutSeconds | int | 600 | 0.. | stops | how long a volume may take
volumebinding.shape | list | none | | stops | utilization and score points, with the feature gate StorageCapacityScoring
dynamicresources.filterTimeoutSeconds | int | 10 | 0..! | stops | how long looking for devices (DRA) may take

plugin nodeorder | plugins/nodeorder/nodeorder.go calculateWeight
leastrequested.weight | int | 1 | 0.. | default | prefer empty nodes; 0 is off
mostrequested.weight | int | 0 | 0.. | default | prefer full nodes; 0 is off
nodeaffinity.weight | int | 2 | 0.. | default | preferred node affinity; 0 is off
podaffinity.weight | int | 2 | 0.. | default | preferred affinity between pods; 0 is off
balancedresource.weight | int | 1 | 0.. | default | prefer nodes on which resources are used alike; 0 is off
tainttoleration.weight | int | 3 | 0.. | default | avoid PreferNoSchedule taints; 0 is off
imagelocality.weight | int | 1 | 0.. | default | prefer nodes that have the image; 0 is off
podtopologyspread.weight | int | 2 | 0.. | default | soft topology spread; 0 is off

plugin binpack | plugins/binpack/binpack.go calculateWeight
binpack.weight | int | 1 | 0.. | default | weight of the whole score; 0 is off
binpack.cpu | int | 1 | 0..! | default | weight of cpu in it
binpack.memory | int | 1 | 0..! | default | weight of memory in it
binpack.resources | string | none | | ignored | other resources that count, with commas between them
binpack.resources.<resource> | int | 1 | 0..! | default | weight of a resource that binpack.resources lists

plugin resource-strategy-fit | plugins/resource-strategy-fit/resource_strategy_fit.go calculateWeight, applySraPolicy, applyProportionalPolicy
resourceStrategyFitWeight | int | 10 | 0..! | stops | weight of the whole score
resources | map | cpu and memory LeastAllocated, 1 each | | stops | resource, or beginning with one * at its end: {type: LeastAllocated or MostAllocated, weight}
sra | map | off | | stops | {enable, resources, weight, resourceWeight}: keep jobs without scarce resources off nodes that have them
proportional | map | off | | stops | {enable, resources, resourceProportion}: keep cpu and memory beside scarce resources

plugin network-topology-aware | plugins/network-topology-aware/network_topology_aware.go getPriorityWeight, getNormalPodConfig
weight | int | 1 | 0..! | default | weight of the whole score
hypernode.binpack.cpu | int | 1 | 0..! | default | weight of cpu when hypernodes are filled
hypernode.binpack.memory | int | 1 | 0..! | default | weight of memory
hypernode.binpack.resources | string | none | | ignored | other resources that count, with commas between them
hypernode.binpack.resources.<resource> | int | 1 | 0..! | default | weight of a resource that hypernode.binpack.resources lists
hypernode.binpack.normal-pod.enable | bool | true | | default | fill hypernodes with pods without topology too
hypernode.binpack.normal-pod.fading | float | 0.8 | 0..! | default | how much less each higher tier counts for them; 0: tier 1 only
hypernode.gradient.evict.max-hypernodes | int | 8 | 1..! | default | most hypernodes of a tier that gang evictions try

plugin nodegroup | plugins/nodegroup/nodegroup.go New
strict | bool | true | | default | nodes without a group are closed to every queue that has an affinity
enablePreferredOrder | bool | false | | default | of preferred groups the first counts most

plugin numa-aware | plugins/numaaware/numaaware.go calculateWeight
weight | int | 1 | 0.. | default | weight of the score

plugin task-topology | plugins/task-topology/util.go calculateWeight
task-topology.weight | int | 1 | 0.. | default | weight of the score

plugin tdm | plugins/tdm/tdm.go New
tdm.revocable-zone.<zone> | window | none | | stops | from and to of the hours in which nodes of the zone may be used, like 10:00-21:00
tdm.evict.period | duration | 1m | | stops | time between two evictions after the hours

plugin usage | plugins/usage/usage.go New
usage.weight | int | 5 | | default | weight of the whole score
cpu.weight | int | 1 | | default | weight of cpu in it
memory.weight | int | 1 | | default | weight of memory in it
thresholds | map | cpu 80, mem 80 | | ignored | {cpu, mem}: percent of load above which a node takes no pod; whole numbers
estimator | map | as inside | | ignored | estimates the load of pods that no metric shows yet | 1.16

plugin rescheduling | plugins/rescheduling/rescheduling.go parseArguments
interval | duration | 5m | | stops | time between two rounds
metricsPeriod | string | 5m | | stops | the period of the load
strategies | list | lowNodeUtilization | | ignored | {name, params: {thresholds, targetThresholds}}

plugin fairshare | plugins/fairshare/fairshare.go New | 1.16
fairshare.targetQueues | string | all queues | | ignored | queues whose namespaces are served in turn, with commas between them
fairshare.resourceKey | string | nvidia.com/gpu | | ignored | the resource whose use counts
fairshare.resourceKey.<queue> | string | fairshare.resourceKey | | ignored | another resource for one of the target queues
fairshare.halfLifeMinutes | string | 240 | | ignored | minutes after which use counts half
fairshare.enableEnqueueGate | string | false | | ignored | "true": a namespace above its share gets no further jobs admitted
fairshare.persistState | string | false | | ignored | "true": use is kept in a ConfigMap over a restart
fairshare.stateNamespace | string | volcano-system | | ignored | namespace of that ConfigMap
fairshare.stateConfigMap | string | fairshare-usage-state | | ignored | its name
fairshare.flushIntervalSeconds | string | 30 | | ignored | seconds between two writes of it

plugin group-topology-affinity | plugins/group-topology-affinity/group_topology_affinity.go New | 1.16
weight | int | 1 | 0..! | ignored | weight of preferred anti-affinity between PodGroups

plugin deviceshare | plugins/deviceshare/deviceshare.go enablePredicate
deviceshare.GPUSharingEnable | bool | false | | default | share of a GPU's memory (volcano.sh/gpu-memory)
deviceshare.GPUNumberEnable | bool | false | | default | whole GPUs (volcano.sh/gpu-number)
deviceshare.NodeLockEnable | bool | false | | default | one pod at a time for a node
deviceshare.VGPUEnable | bool | false | | default | virtual GPUs (volcano.sh/vgpu-number)
deviceshare.AscendMindClusterVNPUEnable | bool | false | | default | Ascend's virtual NPUs by MindCluster
deviceshare.AscendHAMiVNPUEnable | bool | false | | default | Ascend's virtual NPUs by HAMi
deviceshare.SchedulePolicy | string | none | | default | score of devices: binpack or spread
deviceshare.ScheduleWeight | int | 0 | 0.. | default | weight of that score; 0 is off
deviceshare.KnownGeometriesCMName | string | volcano-vgpu-device-config | | default | ConfigMap of the MIG geometries
deviceshare.KnownGeometriesCMNamespace | string | kube-system | | default | its namespace
deviceshare.GPUExclusiveRules | list | none | | ignored | sets of labels; pods that match one share no device

plugin extender | plugins/extender/extender.go parseExtenderConfig
extender.urlPrefix | string | none | | ignored | where the other program answers
extender.httpTimeout | duration | 1s | | ignored | how long it may take
extender.onSessionOpenVerb | string | off | | ignored | path that is called when a session opens
extender.onSessionCloseVerb | string | off | | ignored | path that is called when it closes
extender.predicateVerb | string | off | | ignored | path that is asked about nodes
extender.prioritizeVerb | string | off | | ignored | path that is asked for scores
extender.preemptableVerb | string | off | | ignored | path that is asked about victims of preempt
extender.reclaimableVerb | string | off | | ignored | path that is asked about victims of reclaim
extender.queueOverusedVerb | string | off | | ignored | path that is asked whether a queue has too much
extender.jobEnqueueableVerb | string | off | | ignored | path that is asked whether a job gets pods
extender.jobEnqueuedVerb | string | off | | ignored | path that is told of a job that gets pods | 1.16
extender.jobReadyVerb | string | off | | ignored | path that is asked whether a job is ready
extender.allocateFuncVerb | string | off | | ignored | path that is told of an allocation
extender.deallocateFuncVerb | string | off | | ignored | path that is told of its end
extender.ignorable | bool | false | | default | go on when the program fails
extender.managedResources | list | all | | stops | ask only about pods that request one of these
"""  # noqa: E501


def _read_table(table: str) -> dict[str, ArgumentOwner]:
    found: dict[str, ArgumentOwner] = {}
    for block in table.split("\n"):
        cells = [cell.strip() for cell in block.split("|")]
        word, _, name = cells[0].partition(" ")
        if word in ("action", "plugin") and name:
            found[name] = ArgumentOwner(name, word == "action", cells[1], since_version(cells[2:]))
        elif len(cells) > 1:
            owner = found.popitem()[1]
            found[owner.name] = replace(owner, arguments=(*owner.arguments, _argument(cells, owner.since)))
    return found


def since_version(cells: Sequence[str], otherwise: int = FIRST_VERSION) -> int:
    """The minor version that the last cell of a row names, if it has one."""
    return int(cells[0].removeprefix("1.")) if cells else otherwise


def _argument(cells: list[str], of_owner: int) -> Argument:
    name, type_name, default, bounds, mistype, meaning, *since = cells
    low, _, high = bounds.rstrip("!").partition("..")
    lowest, highest = (float(text) if text else None for text in (low, high))
    version = since_version(since, of_owner)
    return Argument(name, type_name, default, lowest, highest, bounds.endswith("!"), mistype, meaning, version)


OWNERS: Mapping[str, ArgumentOwner] = _read_table(_TABLE)
"""Actions and plugins by name, each with its arguments."""


def known_arguments(owner: str) -> tuple[Argument, ...]:
    return OWNERS[owner].arguments if owner in OWNERS else ()


def moved_argument(owner: str, name: str) -> tuple[str, str] | None:
    """(plugin, argument) of another plugin that has this name, or whose last word is this one's; of several none."""
    _, dot, word = name.rpartition(".")
    others = [other for other in OWNERS.values() if other.name != owner]
    named = [(other.name, argument.name) for other in others for argument in other.arguments]
    same = [pair for pair in named if pair[1] == name]
    alike = [pair for pair in named if pair[1].rpartition(".")[2] == word] if dot else []
    found = list(dict.fromkeys([*same, *alike]))
    return found[0] if len(found) == 1 else None


def find_argument(owner: str, name: str) -> Argument | None:
    """The argument of that name, or the family that it belongs to; None where nothing reads it."""
    for argument in known_arguments(owner):
        if argument.name == name or (argument.family and name.startswith(argument.family) and name != argument.family):
            return argument
    return None


TRUTH_WORDS: Mapping[object, bool] = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
"""Texts that Volcano takes for a boolean argument (GetBool of pkg/scheduler/framework/arguments.go)."""


def typed_arguments(owner: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an action or a plugin, those of type bool as true or false where Volcano reads a text as such.
    Of other types Volcano converts no text; what has the wrong type stays as written, for GP404 to report."""
    return {
        name: TRUTH_WORDS.get(value, value) if isinstance(value, str) and _is_bool(owner, name) else value
        for name, value in arguments.items()
    }


def _is_bool(owner: str, name: str) -> bool:
    found = find_argument(owner, name)
    return found is not None and found.type_name == "bool"


def explanation(words: str) -> str | None:
    """What `gangplan explain` says of a plugin, an action, or an argument: its own name (`binpack.weight`,
    `overcommit-factor`) or with the owner's before it (`gangpreempt.maxDomains`). None for any other words."""
    if words in OWNERS:
        return _owner_text(OWNERS[words])
    found = []
    for owner in OWNERS.values():
        name = words.removeprefix(f"{owner.name}.")
        argument = find_argument(owner.name, words) or find_argument(owner.name, name)
        if argument is not None and (name != words or argument in owner.arguments):
            found.append(_argument_text(owner, argument))
    return "\n".join(found) or None


def near_name(words: str) -> str:
    """The action, plugin or argument that is spelled nearly so, or ""."""
    arguments = [argument for owner in OWNERS.values() for argument in owner.arguments]
    names = {f"{owner.name}.{argument.name}" for owner in OWNERS.values() for argument in owner.arguments}
    return did_you_mean(words, {*OWNERS, *names, *(argument.name for argument in arguments)})


MISTYPES = {
    "default": "a value of another type is ignored with a line in the scheduler's log",
    "stops": "a value of another type ends the scheduler, again after each restart",
    "ignored": "a value of another type is ignored silently",
    "unread": "Volcano does not read it",
}


def _argument_text(owner: ArgumentOwner, argument: Argument) -> str:
    what = "action" if owner.is_action else "plugin"
    lines = [f"{argument.name} ({what} {owner.name}): {argument.meaning}"]
    if argument.is_read:
        allowed = f", {argument.allowed}" if argument.allowed else ""
        lines.append(f"  type     {argument.type_name}{allowed}")
        outside = "; outside the range the default counts" if argument.is_enforced else ""
        lines.append(f"  default  {argument.default}{outside}")
    place = (
        f"configurations: [{{name: {owner.name}, arguments: ...}}]" if owner.is_action else "arguments of the plugin"
    )
    lines.append(f"  where    {place}")
    lines.append(f"  mistakes {MISTYPES[argument.mistype]}")
    lines.append(f"  source   pkg/scheduler/{owner.source} (Volcano {_first_release(argument.since)})")
    return "\n".join(lines) + "\n"


def _owner_text(owner: ArgumentOwner) -> str:
    what = "action" if owner.is_action else "plugin"
    rows = [f"{what} {owner.name}" + ("" if owner.arguments else " has no arguments")]
    width = max((len(argument.name) for argument in owner.arguments), default=0)
    for argument in owner.arguments:
        default = f" (default {argument.default})" if argument.default else ""
        rows.append(f"  {argument.name:<{width}}  {argument.meaning}{default}")
    return "\n".join([*rows, f"  source: pkg/scheduler/{owner.source} (Volcano {_first_release(owner.since)})"]) + "\n"


def _first_release(since: int) -> str:
    """The release whose source was read; of 1.16 files of its branch, see the reference."""
    return "1.15.1" if since == FIRST_VERSION else f"1.{since}"


def arguments_page() -> str:
    """Return the page of the reference with every argument."""
    rows = [
        "# Arguments of Volcano's scheduler",
        "",
        "All actions and plugins of Volcano 1.15 and 1.16; what only 1.16 has is marked. "
        "`gangplan explain binpack.weight` shows one argument. "
        "Sources are below pkg/scheduler; those of 1.15.1 were run, those of 1.16 were only read.",
    ]
    for owner in OWNERS.values():
        heading = f"## {'Action' if owner.is_action else 'Plugin'} {owner.name}{since_text(owner.since)}"
        rows += ["", heading, "", f"Source: {owner.source}."]
        if owner.arguments:
            rows += ["", "| argument | type | default | range | meaning | mistyped |", "|---|---|---|---|---|---|"]
        for one in owner.arguments:
            meaning = one.meaning + ("" if owner.since == one.since else since_text(one.since))
            cells = (f"`{one.name}`", one.type_name, one.default, one.allowed, meaning, one.mistype)
            rows.append(f"| {' | '.join(cells)} |")
        rows += _nested_rows(owner.name)
    rows += ["", "## metrics", "", "Source: cache/cache.go, metrics/source.", *_nested_rows("metrics")]
    mistypes = "; ".join(f"*{word}*: {text}" for word, text in (MISTYPES | NESTED_MISTYPES).items())
    return "\n".join([*rows, "", f"Mistyped: {mistypes}."]) + "\n"


def since_text(since: int) -> str:
    """ " (1.16)" of what the first known version does not have."""
    return "" if since == FIRST_VERSION else f" (1.{since})"


def _nested_rows(owner: str) -> list[str]:
    """The table of what is read inside the arguments of an action or a plugin; empty for most."""
    found = []
    for name, type_name, default, bounds, mistype, meaning in ROWS.get(owner, ()):
        low, _, high = bounds.rstrip("!").partition("..")
        allowed = (f"{low} to {high}" if high else f"{low} or more") if low else ""
        shown = name.removeprefix("metrics.") if owner == "metrics" else name
        found.append(f"| `{shown}` | {type_name} | {default} | {allowed} | {meaning} | {mistype} |")
    header = ["", "| inside | type | default | range | meaning | mistyped |", "|---|---|---|---|---|---|"]
    return [*header, *found] if found else []
