"""Snapshots: what one passes on to the next."""

from __future__ import annotations

import json

from compiler.emit.manifest import Manifest
from reconciler.planning.snapshot import Snapshot


def test_manifests_that_stay_are_the_former_ones_themselves() -> None:
    """Also where Python takes true for 1, what is written counts."""

    def item(name: str, value: object) -> Manifest:
        meta = {"name": name}
        return Manifest(1, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "x": value}, "f.yaml:1")

    former = Snapshot("one", True, manifests=(item("stays", 1), item("goes", 1), item("turns", 1)))
    later = Snapshot("two", True, manifests=(item("stays", 1), item("turns", True), item("new", 1)))
    kept = later.with_manifests_of(former)
    assert kept.as_json() == later.as_json()
    assert kept.manifests[0] is former.manifests[0]
    assert kept.manifests[1] is later.manifests[1]


def test_a_plan_of_before_there_were_moments_is_read() -> None:
    snapshot = Snapshot("one", True, moments=(100, 200))
    former = {key: value for key, value in json.loads(snapshot.as_json()).items() if key not in ("moments", "version")}
    assert Snapshot.from_json(snapshot.as_json()) == snapshot
    assert Snapshot.from_json(json.dumps(former)) == Snapshot("one", True)
