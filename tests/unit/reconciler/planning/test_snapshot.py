"""Snapshots: what one passes on to the next."""

from __future__ import annotations

import json

import pytest

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


def test_a_plan_is_read_as_it_was_written() -> None:
    snapshot = Snapshot("one", True, moments=(100, 200))
    assert Snapshot.from_json(snapshot.as_json()) == snapshot
    with pytest.raises(ValueError, match="this gangplan knows"):
        Snapshot.from_json(json.dumps({**json.loads(snapshot.as_json()), "version": 1}))
