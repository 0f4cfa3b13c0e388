"""Broken documents of every kind, drawn from a seed: values of the wrong type, fields that are gone, renamed or of
another kind, and text that is hardly YAML."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

from compiler.kinds.kind import kinds
from tests.builders.beside import beside
from tests.builders.manifests import cluster_manifests, job_manifests, other_manifests

POD: dict[str, Any] = beside(__file__)
ROLE = {"replicas": 2, "template": POD}
SERVICE = {**ROLE, "selector": {"matchLabels": {"app": "x"}}}
WRONG: tuple[Any, ...] = (
    None, 0, 5, -1, 1.5, True, "", "text", "1Gi", "-3", "a/b", "é\n", [], [1], [None], [{}], {}, {"a": {}},
    {"": None}, 2**31, 2**63, 10**40, "9" * 300, [[[]]], {"spec": {"containers": [None]}},
    "2026-01-01", "{{ .Values.x }}", "x" * 70,
)  # fmt: skip
PIECES = [
    b"\xff", b"\x00", b"\r", b"\t", b"---\n", b"|\n", b"{", b"}", b"[", b"]", b"&a ", b"*a", b"<<: ", b"!!x ", b"'",
]  # fmt: skip


def seeds() -> list[dict[str, Any]]:
    """Objects of every kind, and one of a kind that is not known."""
    known = [*cluster_manifests(), *job_manifests(), *other_manifests()]
    written = {(each["apiVersion"], each["kind"]) for each in known}
    unwritten = {(kind.api_version, kind.name) for kind in kinds().values()} - written
    for version, kind in [("x.io/v1", "X"), *sorted(unwritten)]:
        known.append({"apiVersion": version, "kind": kind, "spec": copy.deepcopy(SERVICE)})
    metadata = {"name": "x", "labels": {"a": "b"}, "annotations": {"gangplan.dev/expected-duration": "1h"}}
    return [{**each, "metadata": copy.deepcopy(metadata)} for each in known]


def mutants(seed: int, number: int) -> Iterator[bytes]:
    """So many broken documents. Equal seeds make equal ones."""
    chance, known = Random(seed), seeds()  # noqa: S311  - not a secret
    places = [_places(each) for each in known]
    for _ in range(number):
        at = chance.randrange(len(known))
        changed = copy.deepcopy(known[at])
        changed["metadata"]["name"] = f"x{chance.randrange(40)}"
        for _ in range(chance.randint(1, 3)):
            _change(chance, changed, chance.choice(places[at]), known)
        text = json.dumps(changed, indent=chance.choice((None, 1))).encode()
        yield _broken_text(chance, text) if chance.random() < 0.15 else text


Place = tuple[str | int, ...]


def _places(data: object, path: Place = ()) -> list[Place]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    below = [deeper for key, value in items for deeper in _places(value, (*path, key))]
    return [path, *below] if path else below


def _change(chance: Random, data: Any, place: Place, known: list[dict[str, Any]]) -> None:
    """One change at the place, if it is still there."""
    for step in place[:-1]:
        if not _has(data, step):
            return
        data = data[step]
    key: Any = place[-1]
    if not _has(data, key):
        return
    match chance.randrange(6):
        case 0:
            del data[key]
        case 1 if isinstance(data, dict):
            data[chance.choice(("name", "template", "spec", f"{key}s", str(key)[:-1]))] = data.pop(key)
        case 1 | 2 if isinstance(data, list):
            data.append(copy.deepcopy(data[key]))
        case 3:
            other: Any = chance.choice(known)
            data[key] = copy.deepcopy(other.get(key, other.get("spec")) if isinstance(key, str) else other["metadata"])
        case _:
            data[key] = copy.deepcopy(chance.choice(WRONG))


def _has(data: Any, step: str | int) -> bool:
    return step in data if isinstance(data, dict) else isinstance(data, list) and step in range(len(data))


def _broken_text(chance: Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(changed) + 1)
        if chance.random() < 0.5:
            changed[place:place] = chance.choice(PIECES)
        else:
            del changed[place : place + chance.randint(1, 30)]
    return bytes(changed)
