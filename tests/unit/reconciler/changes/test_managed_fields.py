"""Which fields are ours alone, spelled as the API server spells them in a conflict."""

from __future__ import annotations

from typing import Any

from reconciler.changes.managed_fields import own_fields


def entry(manager: str, fields: dict[str, Any], operation: str = "Apply") -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def test_a_field_is_ours_alone_where_no_other_manager_holds_it() -> None:
    labels: dict[str, Any] = {"f:labels": {"f:x/y": {}}}
    ours = entry("gangplan", {"f:data": {".": {}, "f:a": {}, "f:b.c": {}}, "f:metadata": labels})
    theirs = entry("kubectl", {"f:data": {"f:a": {}, "f:d": {}}}, "Update")
    assert own_fields({"metadata": {"managedFields": [ours]}}) == {
        ".data",
        ".data.a",
        ".data.b.c",
        ".metadata.labels.x/y",
    }
    assert own_fields({"metadata": {"managedFields": [theirs, ours]}}) == {".data", ".data.b.c", ".metadata.labels.x/y"}
    status = {**entry("gangplan", {"f:status": {"f:a": {}}}), "subresource": "status"}
    assert own_fields({"metadata": {"managedFields": [entry("gangplan", {"f:a": {}}, "Update"), status]}}) == set()
    assert own_fields({"metadata": {}}) == set()


def test_items_of_lists_are_named_by_their_keys_and_values() -> None:
    ports: dict[str, Any] = {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:name": {}}}
    ours = entry("gangplan", {"f:spec": {'k:{"name":"main"}': {"f:ports": ports}, 'v:"text"': {}, "i:0": {}}})
    assert own_fields({"metadata": {"managedFields": [ours]}}) == {
        '.spec[name="main"].ports[containerPort=80,protocol="TCP"]',
        '.spec[name="main"].ports[containerPort=80,protocol="TCP"].name',
        '.spec[="text"]',
        ".spec[0]",
    }
