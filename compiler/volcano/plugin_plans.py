"""What each of Volcano's plugins means for a plan, and where Volcano may decide otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compiler.diagnostics.diagnostic import Severity
from compiler.kubernetes import WAITING_TIME_ANNOTATIONS
from compiler.specs.cluster_spec import PluginSpec, Specs
from compiler.specs.queue_spec import NodeGroupAffinity
from compiler.volcano.node_groups import affinity_owner, node_group_plugin, preference_ranks

Condition = Callable[[Specs, PluginSpec], bool]


@dataclass(frozen=True, slots=True)
class Difference:
    """What Volcano may do that the plan does not foresee. applies: whether it can in this repository; when: the same in
    words. severity: of the diagnostic."""

    text: str
    when: str
    applies: Condition
    severity: Severity = "warning"


@dataclass(frozen=True, slots=True)
class PluginPlan:
    """planned: what the plan makes of the plugin."""

    planned: str
    differences: tuple[Difference, ...] = ()


# ---- conditions


def _always(specs: Specs, plugin: PluginSpec) -> bool:
    return True


def _has_action(*actions: str) -> Condition:
    return lambda specs, plugin: (
        specs.scheduler is not None and any(name in specs.scheduler.actions for name in actions)
    )


def _says(value: bool, *arguments: str) -> Condition:
    return lambda specs, plugin: any(plugin.arguments.get(name) is value for name in arguments)


def _victims_are_shuffled(specs: Specs, plugin: PluginSpec) -> bool:
    return plugin.flags.get("enabledVictim", True) and _has_action("shuffle")(specs, plugin)


def _prefers_groups(specs: Specs, plugin: PluginSpec) -> bool:
    if node_group_plugin(specs.scheduler) is None:
        return False
    affinities = {spec.name: spec.affinity for spec in specs.queues}
    owners = {affinity_owner(plugin, gang.queue, specs.queues) for gang in specs.gangs}
    return any(_has_preference(plugin, found) for found in map(affinities.get, owners))


def _has_preference(plugin: PluginSpec, affinity: NodeGroupAffinity | None) -> bool:
    named = () if affinity is None else (*affinity.required, *affinity.preferred, *affinity.anti_preferred)
    return bool(preference_ranks(plugin, affinity, named))


def _has_waiting_time(specs: Specs, plugin: PluginSpec) -> bool:
    if "sla-waiting-time" in plugin.arguments:
        return True
    annotations = (gang.document.metadata.get("annotations") or {} for gang in specs.gangs)
    return any(not written.keys().isdisjoint(WAITING_TIME_ANNOTATIONS) for written in annotations)


def _is_proportional(specs: Specs, plugin: PluginSpec) -> bool:
    proportional = plugin.arguments.get("proportional")
    return isinstance(proportional, Mapping) and proportional.get("enable") is True


def _reclaims_along_the_tree(specs: Specs, plugin: PluginSpec) -> bool:
    hierarchical = plugin.flags.get("enableHierarchy", False) and plugin.flags.get("enableReclaimable", True)
    return hierarchical and _has_action("reclaim")(specs, plugin)


def _limits_nothing(specs: Specs, plugin: PluginSpec) -> bool:
    """Whether the plugin orders queues, or says who gives back, without the limit that goes with it."""
    says_more = plugin.flags.get("enableQueueOrder", True) or plugin.flags.get("enableReclaimable", True)
    return says_more and not plugin.flags.get("enabledAllocatable", True)


def _has_unplanned_needs(specs: Specs, plugin: PluginSpec) -> bool:
    return any(role.pod.has_unplanned_needs for gang in specs.gangs for role in gang.roles)


# ---- the table

UNLIMITED = Difference(
    "in Volcano it limits nothing: the plan keeps its limits where it reclaims, and else not even its order of queues, "
    "so that Volcano may start other jobs",
    "enabledAllocatable: false",
    _limits_nothing,
)

SCORES = "scores nodes; the plan names the nodes, so the score decides nothing for planned pods"
PLUGIN_PLANS: Mapping[str, PluginPlan] = {
    "priority": PluginPlan("jobs go by their priority inside a queue, and a victim's is lower, vote or not"),
    "gang": PluginPlan("a job starts whole or not at all (GP417 without it); its vote keeps victims at their minima"),
    "conformance": PluginPlan("kube-system and pods of the system's priority classes are never victims, vote or not"),
    "drf": PluginPlan(
        "fair shares inside queues; with enableHierarchy along volcano.sh/hierarchy; its vote on preemption",
        (
            Difference(
                "its vote on reclaim along the tree is not planned: Volcano may reclaim from other queues",
                "enableHierarchy and the action reclaim",
                _reclaims_along_the_tree,
            ),
        ),
    ),
    "proportion": PluginPlan("no queue exceeds its share by weight; who reclaims and who gives back", (UNLIMITED,)),
    "capacity": PluginPlan(
        "capability, deserved and guarantee, with enableHierarchy along the tree; who reclaims and who gives back",
        (
            Difference(
                "queue limits on device classes (DRA) are not planned: Volcano may leave planned pods pending",
                "capacity.DynamicResourceAllocationEnable: true",
                _says(True, "capacity.DynamicResourceAllocationEnable"),
            ),
            UNLIMITED,
        ),
    ),
    "overcommit": PluginPlan(
        "nothing: it limits how many waiting jobs have pods, not which start (docs/develop/decisions/0005-queues.md)"
    ),
    "sla": PluginPlan(
        "nothing; Cluster.spec.patience is the plan's own limit of waiting",
        (
            Difference(
                "waiting times are not planned: a job past its own keeps the room it is given in parts, "
                "and Volcano may leave planned pods pending meanwhile",
                "sla-waiting-time, of the plugin or of a job",
                _has_waiting_time,
            ),
        ),
    ),
    "predicates": PluginPlan(
        "node selectors, affinity, taints, affinity between pods and topology spread",
        (
            Difference(
                "host ports, volumes and resource claims are not planned: Volcano may refuse the planned node",
                "a job that has some (info)",
                _has_unplanned_needs,
                "info",
            ),
            Difference(
                "the plan keeps taints that Volcano is told to ignore: a job may wait that Volcano would start",
                "predicate.TaintTolerationEnable: false",
                _says(False, "predicate.TaintTolerationEnable"),
            ),
        ),
    ),
    "nodeorder": PluginPlan(f"{SCORES}; leastrequested.weight spreads pods in the plan too"),
    "binpack": PluginPlan(f"{SCORES}; the plan packs nodes anyway"),
    "resource-strategy-fit": PluginPlan(
        f"{SCORES}; LeastAllocated of a device spreads pods in the plan too",
        (
            Difference(
                "the room that proportional keeps beside scarce resources is not planned: "
                "Volcano may refuse the planned node",
                "proportional with enable: true",
                _is_proportional,
            ),
        ),
    ),
    "network-topology-aware": PluginPlan(
        "hypernodes, tiers and subgroups (GP335 without it); the plan decides the tier"
    ),
    "nodegroup": PluginPlan(
        "groups that a queue may not use are closed to its jobs (GW123, GR123), with strict and enableHierarchy; "
        "preferred groups, by Volcano's scores, are the last goal of placement",
        (
            Difference(
                "preferred node groups come after all other goals: the plan takes a less wanted group where that "
                "spreads a job less or opens fewer nodes",
                "groups of several scores open to a queue with jobs (info)",
                _prefers_groups,
                "info",
            ),
        ),
    ),
    "numa-aware": PluginPlan("NUMA nodes by topologyPolicy (GP522 says where they are not planned)"),
    "task-topology": PluginPlan("affinity between roles as a wish inside a leaf"),
    "tdm": PluginPlan(
        "nothing",
        (
            Difference(
                "times of revocable nodes are not planned: Volcano refuses such nodes outside their time and to jobs "
                "without volcano.sh/revocable-zone, and evicts there when it ends",
                "always",
                _always,
            ),
        ),
    ),
    "usage": PluginPlan(
        "nothing",
        (
            Difference(
                "measured load is not planned: Volcano refuses nodes above the thresholds, planned ones too",
                "always",
                _always,
            ),
        ),
    ),
    "rescheduling": PluginPlan(
        "nothing; the plan moves no running pod",
        (
            Difference(
                "rebalancing is not planned: Volcano evicts pods of nodes with high load, which the next plan places "
                "again",
                "the action shuffle",
                _victims_are_shuffled,
            ),
        ),
    ),
    "deviceshare": PluginPlan(
        "virtual GPUs and shared GPU memory, device by device (GP375, GP416)",
        (
            Difference(
                "Ascend's virtual NPUs are not planned: Volcano may refuse the planned node",
                "AscendMindClusterVNPUEnable or AscendHAMiVNPUEnable: true",
                _says(True, "deviceshare.AscendMindClusterVNPUEnable", "deviceshare.AscendHAMiVNPUEnable"),
            ),
            Difference(
                "rules on which jobs may not share a device are not planned: Volcano may refuse the planned node",
                "deviceshare.GPUExclusiveRules",
                lambda specs, plugin: bool(plugin.arguments.get("deviceshare.GPUExclusiveRules")),
            ),
        ),
    ),
    "extender": PluginPlan(
        "nothing",
        (
            Difference(
                "what another program answers is not planned: it may refuse planned nodes, jobs, queues and victims",
                "always",
                _always,
            ),
        ),
    ),
    "cdp": PluginPlan("cooldowns (volcano.sh/cooldown-time) protect young pods, each its own (GP429 without it)"),
    "fairshare": PluginPlan(
        "jobs of a queue and a priority go by what their namespaces used, which a state with its ConfigMap says; then "
        "by age (1.16)",
        (
            Difference(
                "the gate of enqueue is not planned: Volcano may keep back a job of a namespace above its share",
                'fairshare.enableEnqueueGate: "true"',
                lambda specs, plugin: str(plugin.arguments.get("fairshare.enableEnqueueGate")).lower() == "true",
            ),
        ),
    ),
    "group-topology-affinity": PluginPlan(
        "PodGroups keep out of the domains that their required terms close, and lie in one domain of each term's tier; "
        "preferred terms are a goal of placement, after the spread of jobs (1.16)",
    ),
    "pdb": PluginPlan(
        "disruption budgets of the state protect pods, with and without the plugin",
        (
            Difference(
                "evictions without need are not planned: with shuffle it names every running pod that no budget "
                "protects",
                "the action shuffle",
                _victims_are_shuffled,
            ),
        ),
    ),
    "resourcequota": PluginPlan(
        "nothing",
        (
            Difference(
                "quotas of namespaces are not planned: a planned job stays Pending while its namespace's is used up "
                "(GP527 says so)",
                "the action enqueue",
                _has_action("enqueue"),
            ),
        ),
    ),
}
"""Plugin -> what the plan makes of it, for all plugins of Volcano 1.15 and 1.16."""


ACTION_PLANS: Mapping[str, str] = {
    "enqueue": "admits PodGroups whose minResources fit in the cluster and their queue; planned jobs are admitted once "
    "their gates are lifted",
    "allocate": "places waiting gangs, queue by queue; of planned pods it finds the node that the plan names",
    "backfill": "places pods that request nothing; the plan has room for them everywhere",
    "preempt": "evicts pods of lower priority in the same queue; the plan chooses the victims, proven fewest and least",
    "reclaim": "evicts pods of queues above what they deserve, for queues below; the plan chooses the victims",
    "gangpreempt": "preempt for whole gangs with a network topology",
    "gangreclaim": "reclaim for whole gangs with a network topology",
    "shuffle": "evicts running pods that the plugins rescheduling and tdm name; not planned, and GP430 warns of it",
}
"""Action -> what it does, and what the plan makes of it."""


def planned_text(name: str) -> str:
    """Lines of what the plan makes of a plugin or an action; empty for any other name."""
    if name in ACTION_PLANS:
        return f"  does   {ACTION_PLANS[name]}\n"
    if name not in PLUGIN_PLANS:
        return ""
    plan = PLUGIN_PLANS[name]
    rows = [f"  in the plan: {plan.planned}", *(f"  with {each.when}: {each.text}" for each in plan.differences)]
    return "\n".join(rows) + "\n"


def plugins_page() -> str:
    """Return the page of the reference with every plugin."""
    rows = [
        "# What Volcano's plugins mean for a plan",
        "",
        "All plugins of Volcano 1.15 and 1.16. "
        "Where Volcano may decide otherwise than the plan, `check` warns of it (GP430) at the plugin's line, once.",
        "",
        "| plugin | in the plan | GP430 warns that | where |",
        "|---|---|---|---|",
    ]
    for name, plan in PLUGIN_PLANS.items():
        differences = plan.differences or (Difference("", "", _always),)
        for number, found in enumerate(differences):
            shown = (f"`{name}`", plan.planned) if number == 0 else ("", "")
            rows.append(f"| {' | '.join((*shown, found.text, found.when))} |")
    return "\n".join(rows) + "\n"
