"""One valid manifest of every kind that is read, as plain data: what fuzzing starts from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

_KINDS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
_METADATA: dict[str, dict[str, Any]] = {
    "Pod": {
        "annotations": {"scheduling.k8s.io/group-name": "ring", "volcano.sh/task-spec": "w"},
        "labels": {"app": "NAME"},
    },
    "Job": {"annotations": {"gangplan.dev/expected-duration": "1h"}},
}


def _manifests(bodies: dict[str, Any]) -> list[Manifest]:
    found = []
    for at, (head, body) in enumerate(bodies.items()):
        version, kind, *name = head.split()
        metadata = {"name": (name or ["manifest" if kind.startswith("Workflow") else f"m{at}"])[0]}
        named = json.loads(json.dumps(body, sort_keys=True).replace("NAME", metadata["name"]))
        found.append(
            {"apiVersion": version, "kind": kind, "metadata": {**metadata, **_METADATA.get(kind, {})}, **named}
        )
    return found


def _with_specs(specs: dict[str, Any]) -> list[Manifest]:
    return _manifests({head: {"spec": spec} for head, spec in specs.items()})


def cluster_manifests() -> list[Manifest]:
    """Return what describes the cluster."""
    return _with_specs(_KINDS["cluster"])


def job_manifests() -> list[Manifest]:
    """Return what runs in it, and what that refers to."""
    return _with_specs(_KINDS["jobs"])


def other_manifests() -> list[Manifest]:
    """Return objects of other kinds, which need not be valid."""
    return _manifests(_KINDS["others"])


def repository_files(*others: Manifest) -> dict[str, bytes]:
    """Return these manifests as a repository, a file for each; others: in place of those of the same kind and name."""
    replacing, found = {_key(manifest): manifest for manifest in others}, dict[str, bytes]()
    for folder, manifests in (("cluster-specs/t", cluster_manifests()), ("jobs", job_manifests())):
        for manifest in manifests:
            key = _key(manifest)
            found[f"{folder}/{key}.yaml"] = json.dumps(replacing.get(key, manifest)).encode()
    return found


def _key(manifest: Manifest) -> str:
    return f"{manifest['apiVersion'].partition('/')[0]}-{manifest['kind']}-{manifest['metadata']['name']}".lower()
