"""Findings on labels and annotations that nothing reads: of gangplan, and misspelt ones of Volcano, JobSet and LWS."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from compiler import kubernetes as k8s
from compiler.diagnostics.diagnostic import Diagnostic, did_you_mean, meant
from compiler.fields.models import MISSPELT_KEY, UNKNOWN_ANNOTATION, UNREAD_POD_GROUP
from compiler.syntax.documents import Document, FieldPath


def _annotation_help(key: str) -> str:
    """Return the fix for an unknown annotation: the one of gangplan that `key` resembles, ignoring their common
    prefix."""
    known = {name.removeprefix(k8s.ANNOTATION_PREFIX): name for name in k8s.KNOWN_ANNOTATIONS}
    near = did_you_mean(key.removeprefix(k8s.ANNOTATION_PREFIX), known)
    return meant(key, known[near]) if near else f"use one of {', '.join(k8s.KNOWN_ANNOTATIONS)}"


_NEVER_LABELS = (
    k8s.EXPECTED_DURATION_ANNOTATION,
    k8s.GANG_ANNOTATION,
    k8s.ORDER_ANNOTATION,
    k8s.SUBMITTED_AT_ANNOTATION,
)


def _is_strange(key: str) -> bool:
    """Return whether the key's prefix is meant to be gangplan's, and is another."""
    prefix = key.rpartition("/")[0]
    return prefix.startswith("gangplan") and f"{prefix}/" != k8s.ANNOTATION_PREFIX


_GROUP_NAMES = (k8s.GROUP_NAME_ANNOTATION, k8s.VOLCANO_GROUP_NAME_ANNOTATION)


def metadata_diagnostics(document: Document, data: Any, path: FieldPath) -> Iterator[Diagnostic]:
    """Findings on the labels and annotations of the metadata at `path`, a document's or a pod template's."""
    for section in ("labels", "annotations"):
        found = data.get(section) if isinstance(data, dict) else None
        for key, value in found.items() if isinstance(found, dict) else ():
            at = (*path, section, key)
            if value is not None and not isinstance(value, str):
                continue  # of the wrong type
            if section == "annotations" and key.startswith(k8s.ANNOTATION_PREFIX) and key not in k8s.KNOWN_ANNOTATIONS:
                yield document.diagnostic(UNKNOWN_ANNOTATION, at, f"nothing reads {key}", _annotation_help(key))
            elif (right := f"{k8s.ANNOTATION_PREFIX}{key.rpartition('/')[2]}") in k8s.KNOWN_ANNOTATIONS and _is_strange(
                key
            ):
                yield document.diagnostic(UNKNOWN_ANNOTATION, at, f"nothing reads {key}", meant(key, right))
            elif section == "labels" and key in _NEVER_LABELS:
                yield document.diagnostic(
                    UNKNOWN_ANNOTATION, at, f"nothing reads the label {key}", "move it to annotations"
                )
            elif right := meant_key(key):
                yield document.diagnostic(MISSPELT_KEY, at, f"nothing reads {key}", meant(key, right))
    notes = data.get("annotations") if isinstance(data, dict) else None
    read, unread = [notes.get(key) for key in _GROUP_NAMES] if isinstance(notes, dict) else (None, None)
    is_of_pod = path != ("metadata",) or document.kind == "Pod"
    if unread and unread != read and (read or is_of_pod):
        at = (*path, "annotations", _GROUP_NAMES[1])
        message = f"{_GROUP_NAMES[0]} names {read!r}, this names {unread!r}"
        help = "remove this one"
        if not read:
            message, help = f"Volcano's scheduler does not read {_GROUP_NAMES[1]}", f"write {_GROUP_NAMES[0]}"
        yield document.diagnostic(UNREAD_POD_GROUP, at, message, help)


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
