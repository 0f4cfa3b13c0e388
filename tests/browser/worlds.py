"""Data of pages that no repository makes: large, and hostile."""

from __future__ import annotations

from typing import Any

GPU = "nvidia.com/gpu"
NAMED = ("pods", "requests", "replicas", "reserved", "running", "evicted")
"""Fields whose keys are names, also one level below."""
HOSTILE = (
    "</script><script>document.title='hit'</script>",
    '"><img src=x onerror="document.title=\'hit\'">',
    "'quotes\" & ampersands; --> ]]>",
    "bidi \u202egnirts\u202c \u2066isolated\u2069 \u200f",
    "line\u2028separator\nand tab\tand null\x00",
    "n" * 253,
)


def large_document(nodes: int = 10_000, jobs: int = 1_000) -> dict[str, Any]:
    """Supernodes of 8 nodes, spines of 16 supernodes; nine in ten jobs run or start on consecutive nodes, the others
    wait."""
    supernodes, spines = nodes // 8, -(-nodes // 128)
    names = [f"gpu-{at:05}" for at in range(nodes)]
    gangs, at = [], 0
    for number in range(jobs):
        size = 1 + (number * 7) % 19
        waits = number % 10 == 9 or at + size > nodes
        gangs.append(_job(number, size, {} if waits else dict.fromkeys(names[at : at + size], 1)))
        at += 0 if waits else size
    queue = {"parent": "root", "allocated": {GPU: 0}, "guarantee": {}, "capability": {GPU: 40_000}, "share": 0.5}
    queues = [
        {**queue, "name": f"queue-{q}", "admitted": {GPU: 9_000 + q}, "deserved": {GPU: 10_000}} for q in range(8)
    ]
    return {
        "apiVersion": "gangplan.dev/v1alpha1",
        "kind": "Plan",
        "cluster": "large",
        "digest": "sha256:0",
        "gangs": gangs,
        "batches": [{"gangs": ["team/job-0000"], "verdict": "proven", "objectives": [], "seconds": None}],
        "queues": queues,
        "totals": {GPU: {"capacity": 8 * nodes, "used": 0, "planned": 8 * at}},
        "devices": [GPU],
        "domains": {
            "name": [f"sn-{s:04}" for s in range(supernodes)] + [f"spine-{s:02}" for s in range(spines)],
            "tier": [1] * supernodes + [2] * spines,
            "tierName": ["sn"] * supernodes + ["spine"] * spines,
            "parent": [supernodes + s // 16 for s in range(supernodes)] + [None] * spines,
            "dedicated": [[supernodes - 1, "queue-1"]],
        },
        "nodes": {
            "name": names,
            "domain": [[s, 8] for s in range(supernodes)],
            "capacity": {GPU: [[8, nodes]], "cpu": [[128, nodes]]},
            "others": {},
            "closed": [5],
        },
        "maintenance": [{"from": 3600, "to": 7200, "nodes": [0, 1, 2]}],
        "reasonTitles": {"GW101": "queue capability reached"},
    }


def _job(number: int, size: int, places: dict[str, int]) -> dict[str, Any]:
    source = {"object": f"Queue queue-{number % 8}", "field": "capability", "file": "q.yaml", "line": 1, "column": 1}
    message = f"queue queue-{number % 8} may hold 10000 {GPU} and has {number} left; the job asks for {8 * size}"
    reasons = [] if places else [{"code": "GW101", "message": message, "from": [source] * 4, "moreSources": 3}] * 3
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "namespace": "team",
        "name": f"job-{number:04}",
        "queue": f"queue-{number % 8}",
        "priority": 10,
        "decision": ("start" if number % 3 else "keep") if places else "wait",
        "pods": {"worker": places} if places else {},
        "domains": [],
        "reasons": reasons,
        "repairs": [] if places else [{"code": "GR101", "message": "a higher capability", "from": [source]}] * 2,
        "evictedFor": [],
        "startsAt": None,
        "minimum": size,
        "replicas": {"worker": size},
        "requests": {"worker": {GPU: 8, "cpu": 64}},
        **({"endsIn": 3600 + number} if places and not number % 3 else {}),
    }


def hostile_document(document: dict[str, Any]) -> dict[str, Any]:
    """The document with a hostile text in place of every name and sentence, equal ones for equal ones."""
    seen: dict[str, str] = {}
    kept = {"start", "keep", "wait", "evict", "root", "proven", "within gap", "limit reached"}
    kept |= set(document["nodes"]["capacity"])

    def hostile(text: str) -> str:
        if text in kept:
            return text
        return seen.setdefault(text, f"{HOSTILE[len(seen) % len(HOSTILE)]}{len(seen)}")

    def changed(value: Any, key: str = "") -> Any:
        if isinstance(value, dict) and key in NAMED:
            return {hostile(name): changed(each, key) for name, each in value.items()}
        if isinstance(value, dict):
            return {name: changed(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [changed(each, key) for each in value]
        return hostile(value) if isinstance(value, str) and key not in ("apiVersion", "devices", "decision") else value

    found: dict[str, Any] = changed({**document, "reasonTitles": {}})
    return found
