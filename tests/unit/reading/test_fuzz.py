"""No input ends in an exception, and every finding is complete."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.read import read_specs
from compiler.render import FORMATS, render_text
from compiler.tree import Tree

FIXTURES = Path(__file__).parents[2] / "fixtures" / "diagnostics"
SEEDS = [path.read_bytes() for path in sorted(FIXTURES.glob("*.txt"))]
PIECES = [b"\xff", b"\x00", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\r", b"\t", b"---\n", b"...\n", b"%YAML 1.1\n", b"|\n", b">-\n"]
PIECES += rb"""{ } [ ] &a *a <<: !!str ' " ? : - null ~ 1e999 .nan 0x 010 -1 yes 2026-01-01 99999999999999999999999999""".split()
PIECES += [b"spec: null\n", b"metadata: 5\n", b"items: [1]\n", b"kind: List\n", b"? ", b": ", b"- ", b"&a ", b"*a ", b"<<: *a\n"]


def read_everything(files: dict[str, bytes]) -> None:
    specs = read_specs(Tree(files))
    for diagnostic in specs.diagnostics:
        assert diagnostic.message
        assert diagnostic.help
        assert diagnostic.position.line >= 1
        assert diagnostic.position.column >= 1
    for render in FORMATS.values():
        render(specs.diagnostics)
    render_text(specs.diagnostics, sources=files)
    queues = {queue.name for queue in specs.queues} | {"root", "default"}
    nodes = {node.name for node in specs.nodes}
    domains = {h.name for h in specs.hypernodes}
    assert all(gang.queue in queues for gang in specs.gangs)
    assert all(set(h.nodes) <= nodes and set(h.hypernodes) <= domains for h in specs.hypernodes)


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_random_bytes(content: bytes) -> None:
    read_everything({"jobs/a.yaml": content, "cluster-specs/demo/a.yaml": content})


@given(st.text(alphabet="abk:-?{}[]&*!|>'\"%@# \n\t,<.~0129\u00e9\u2028", max_size=120))
@settings(max_examples=300, deadline=None)
def test_random_yaml_like_text(content: str) -> None:
    read_everything({"jobs/a.yaml": content.encode()})


def documents(seed: bytes) -> list[bytes]:
    """The repositories of one fixture file, their shorthands made into something that parses."""
    text = seed.replace(b"{{pod}}", b"{spec: {containers: [{name: m, resources: {requests: {cpu: 1}}}]}}")
    for name in (b"job", b"queue", b"hypernode"):
        kind = {b"job": b"batch.volcano.sh/v1alpha1\nkind: Job", b"queue": b"scheduling.volcano.sh/v1beta1\nkind: Queue"}
        head = kind.get(name, b"topology.volcano.sh/v1alpha1\nkind: HyperNode")
        text = text.replace(b"{{" + name + b"}}", b"apiVersion: " + head + b"\nmetadata: {name: train}")
        for other in (b"a", b"b", b"c", b"team-a", b"company", b"child"):
            text = text.replace(b"{{" + name + b" " + other + b"}}", b"apiVersion: " + head + b"\nmetadata: {name: " + other + b"}")
    return [part for part in text.split(b"\n## ") if part.count(b"\n") > 1]


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_mutations_of_valid_repositories(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  - not a secret
    for part in documents(SEEDS[seed]):
        content = bytearray(part.partition(b"\n")[2].partition(b"\n===")[0])
        for _ in range(6):
            changed = bytearray(content)
            for _ in range(chance.randint(1, 4)):
                place = chance.randrange(len(changed) + 1)
                if chance.random() < 0.5:
                    changed[place:place] = chance.choice(PIECES)
                else:
                    del changed[place : place + chance.randint(1, 30)]
            read_everything({"cluster-specs/demo/a.yaml": bytes(changed), "jobs/b.yaml": bytes(content)})


WRONG: tuple[Any, ...] = (None, 5, -1, 1.5, True, "", "text", [], [1], [None], [{}], {}, {"a": {}}, {"": None}, "9" * 400, [[[]]])


def _paths(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = list(data.items()) if isinstance(data, dict) else list(enumerate(data)) if isinstance(data, list) else []
    return [path, *(deeper for key, value in items for deeper in _paths(value, (*path, key)))]


def test_every_value_of_every_kind_replaced_by_every_wrong_one() -> None:
    """Structure-aware: well-formed YAML, any field of the wrong type or missing."""
    import copy
    import json

    from compiler.parse import parse

    for part in (part for seed in SEEDS for part in documents(seed)):
        parsed = parse("a.yaml", part.partition(b"\n")[2].partition(b"\n===")[0])
        for document, _ in parsed.documents[:1]:
            paths = _paths(document.data)[1:]
            for number, path in enumerate(paths[:: max(1, len(paths) // 12)]):
                changed = copy.deepcopy(document.data)
                place: Any = changed
                for key in path[:-1]:
                    place = place[key]
                place[path[-1]] = WRONG[(number + len(paths)) % len(WRONG)]
                read_everything({"cluster-specs/demo/a.yaml": json.dumps(changed).encode()})
