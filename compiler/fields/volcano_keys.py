"""Keys of labels and annotations that Volcano, JobSet and LWS read or write, and similar misspelt ones."""

from __future__ import annotations

from functools import cache

_NAMES = """
    burst-name cooldown-time cronjob-scheduled-timestamp enable-quota-burst forward-cluster gpu-index gpu-memory
    gpu-number gpu-unhealthy-ids hierarchy hierarchy-weights hypercluster hypernode jdb-max-unavailable
    jdb-min-available job-allocated-hypernode job-forwarding job-name job-namespace job-retry-count job-spec
    job-type job-version last-checkpoint-time network-bandwidth-rate network-topology-highest-tier
    network-topology-highest-tier-allowed network-topology-mode network-topology-source node-vgpu-register
    nodegroup-name nodegroup-resource-limits nodetype numa-topology-policy oversubscription partition-id
    predicate-time preemptable qos-level queue-name quota-burst-time resource-group resource-strategy-scoring-type
    resource-strategy-weight revocable-zone scheduling-priority silo-resource sla-waiting-time task-index
    task-instance task-priority task-spec task-topology task-topology-affinity task-topology-anti-affinity
    task-topology-task-order template-uid topology-decision vgpu-ids-new vgpu-mode vgpu-node vgpu-nouse-gpuuuid
    vgpu-podgroup-policy vgpu-time vgpu-use-gpuuuid
"""
_OTHERS = """
    scheduling.k8s.io/group-name scheduling.volcano.sh/group-min-member scheduling.volcano.sh/group-min-resources
    scheduling.volcano.sh/group-name scheduling.volcano.sh/queue-allocation-gate scheduling.volcano.sh/queue-name
"""
VOLCANO_KEYS = frozenset((*(f"volcano.sh/{name}" for name in _NAMES.split()), *_OTHERS.split()))
_OPERATORS_KEYS = {
    "jobset": ("alpha.jobset.sigs.k8s.io", ("exclusive-topology", "node-selector")),
    "leaderworkerset": ("leaderworkerset.sigs.k8s.io", ("exclusive-topology", "subgroup-exclusive-topology")),
}
"""A word of such a key -> the domain, and the names that place pods (api/jobset/v1alpha2, api/leaderworkerset/v1)."""
_MOST_EDITS = 2


@cache
def meant_key(key: str) -> str:
    """Return the key that this one is a slip of the pen away from, or has in another domain; "" where it is one, or
    near none."""
    written, _, name = key.rpartition("/")
    for word, (domain, names) in _OPERATORS_KEYS.items():
        if word in written and written != domain and name in names:
            return f"{domain}/{name}"
    if key in VOLCANO_KEYS or not ("volcano" in key or "scheduling" in key):
        return ""
    others = [known for known in VOLCANO_KEYS if known.rpartition("/")[2] == name]
    if len(others) == 1:
        return others[0]
    near = [(_edits(key, known), known) for known in VOLCANO_KEYS if abs(len(known) - len(key)) <= _MOST_EDITS]
    edits, known = min(near, default=(_MOST_EDITS + 1, ""))
    return known if edits <= _MOST_EDITS else ""


def _edits(left: str, right: str) -> int:
    """Letters to add, remove or replace."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        above, row[0] = row[0], i
        for j, b in enumerate(right, start=1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (a != b))
    return row[-1]
