"""Actions, plugins and flags of Volcano 1.15's scheduler (pkg/scheduler/conf/scheduler_conf.go, actions, plugins)."""

from __future__ import annotations

from compiler.volcano.arguments import OWNERS

SCHEDULER_ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle")
PLUGIN_NAMES = tuple(name for name, owner in OWNERS.items() if not owner.is_action)

_FLAGS = """
    enableJobOrder enableHierarchy enableJobReady enableJobPipelined enableTaskOrder enablePreemptable
    enableReclaimable enablePreemptive enableQueueOrder EnabledClusterOrder enablePredicate enableBestNode
    enableNodeOrder enableTargetJob enableReservedNodes enableJobEnqueued enabledVictim enableJobStarving
    enabledOverused enabledAllocatable enabledHyperNodeOrder enabledSubJobReady enabledSubJobPipelined
    enabledSubJobOrder enabledHyperNodeGradient
"""
PLUGIN_FLAGS = tuple(_FLAGS.split())
HIERARCHY_FLAG = "enableHierarchy"
HIERARCHY_PLUGINS = ("capacity", "drf", "nodegroup")
"""Plugins that read enableHierarchy."""
