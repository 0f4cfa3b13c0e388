"""Actions, plugins, flags and argument types of Volcano 1.15's scheduler (pkg/scheduler)."""

from __future__ import annotations

from collections.abc import Mapping

SCHEDULER_ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle")

_FLAGS = """
    enableJobOrder enableHierarchy enableJobReady enableJobPipelined enableTaskOrder enablePreemptable
    enableReclaimable enablePreemptive enableQueueOrder enabledClusterOrder enablePredicate enableBestNode
    enableNodeOrder enableTargetJob enableReservedNodes enableJobEnqueued enabledVictim enableJobStarving
    enabledOverused enabledAllocatable enabledHyperNodeOrder enabledSubJobReady enabledSubJobPipelined
    enabledSubJobOrder enabledHyperNodeGradient
"""
PLUGIN_FLAGS = tuple(_FLAGS.split())


def _arguments_of_type(type_name: str, names: str, prefix: str = "") -> dict[str, str]:
    return {prefix + name: type_name for name in names.split()}


_PREDICATE_CACHE = {"predicateErrorCacheEnable": "bool"}
_GANG_EVICTION = {"maxDomains": "int", "allowWholeBundle": "bool"}
ACTION_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "allocate": _PREDICATE_CACHE,
    "backfill": _PREDICATE_CACHE,
    "reclaim": _PREDICATE_CACHE,
    "preempt": {
        **_PREDICATE_CACHE,
        "enableTopologyAwarePreemption": "bool",
        **_arguments_of_type(
            "int",
            """topologyAwarePreemptWorkerNum minCandidateNodesPercentage minCandidateNodesAbsolute
            maxCandidateNodesAbsolute""",
        ),
    },
    "gangpreempt": _GANG_EVICTION,
    "gangreclaim": _GANG_EVICTION,
}
"""Action -> argument (under configurations) -> type."""

PLUGIN_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "priority": {},
    "gang": {},
    "conformance": {},
    "drf": {},
    "proportion": {},
    "capacity": {
        "ancestorReclaimLevel": "int",
        "capacity.DynamicResourceAllocationEnable": "bool",
        "capacity.DRAConsumableCapacityEnable": "bool",
    },
    "overcommit": {"overcommit-factor": "float"},
    "sla": {"sla-waiting-time": "string"},
    "predicates": {
        **_arguments_of_type(
            "bool",
            """NodeAffinityEnable NodePortsEnable TaintTolerationEnable PodAffinityEnable NodeVolumeLimitsEnable
            VolumeZoneEnable PodTopologySpreadEnable VolumeBindingEnable CacheEnable DynamicResourceAllocationEnable""",
            "predicate.",
        ),
        "volumebinding.weight": "int",
        "volumebinding.bindTimeoutSeconds": "int",
        "volumebinding.shape": "list",
        "dynamicresources.filterTimeoutSeconds": "int",
    },
    "nodeorder": _arguments_of_type(
        "int",
        """leastrequested.weight mostrequested.weight nodeaffinity.weight podaffinity.weight
        balancedresource.weight tainttoleration.weight imagelocality.weight podtopologyspread.weight""",
    ),
    "binpack": {**_arguments_of_type("int", "weight cpu memory", "binpack."), "binpack.resources": "string"},
    "resource-strategy-fit": {
        "resourceStrategyFitWeight": "int",
        "resources": "map",
        "sra": "map",
        "proportional": "map",
    },
    "network-topology-aware": {
        "weight": "int",
        **_arguments_of_type("int", "cpu memory", "hypernode.binpack."),
        "hypernode.binpack.resources": "string",
        "hypernode.binpack.normal-pod.enable": "bool",
        "hypernode.binpack.normal-pod.fading": "float",
        "hypernode.gradient.evict.max-hypernodes": "int",
    },
    "nodegroup": {"strict": "bool", "enablePreferredOrder": "bool"},
    "numa-aware": {"weight": "int"},
    "task-topology": {"task-topology.weight": "int"},
    "tdm": {"tdm.evict.period": "string"},
    "usage": {
        "usage.weight": "int",
        "cpu.weight": "int",
        "memory.weight": "int",
        "thresholds": "map",
        "estimator": "map",
    },
    "rescheduling": {"interval": "string", "metricsPeriod": "string", "strategies": "list"},
    "deviceshare": {
        **_arguments_of_type(
            "bool",
            """GPUSharingEnable GPUNumberEnable NodeLockEnable VGPUEnable AscendMindClusterVNPUEnable
            AscendHAMiVNPUEnable""",
            "deviceshare.",
        ),
        "deviceshare.SchedulePolicy": "string",
        "deviceshare.ScheduleWeight": "int",
        "deviceshare.KnownGeometriesCMName": "string",
        "deviceshare.KnownGeometriesCMNamespace": "string",
        "deviceshare.GPUExclusiveRules": "list",
    },
    "extender": {
        **_arguments_of_type(
            "string",
            """urlPrefix httpTimeout onSessionOpenVerb onSessionCloseVerb predicateVerb prioritizeVerb
            preemptableVerb reclaimableVerb queueOverusedVerb jobEnqueueableVerb jobEnqueuedVerb jobReadyVerb
            allocateFuncVerb deallocateFuncVerb""",
            "extender.",
        ),
        "extender.ignorable": "bool",
        "extender.managedResources": "list",
    },
    "cdp": {},
    "pdb": {},
    "resourcequota": {},
}
"""Plugin -> argument -> type: int, float, bool, string, list, map."""

ARGUMENT_PREFIXES: Mapping[str, Mapping[str, str]] = {
    "binpack": {"binpack.resources.": "int"},
    "network-topology-aware": {"hypernode.binpack.resources.": "int"},
    "tdm": {"tdm.revocable-zone.": "string"},
}
"""Plugin -> beginning of a family of arguments -> type."""
