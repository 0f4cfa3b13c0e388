"""No input ends in an exception, and every finding is complete."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.diagnostics.render import FORMATS, render_text
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders.depth import sample, settings

FIXTURES = Path(__file__).parents[3] / "fixtures" / "diagnostics"
SEEDS = [path.read_bytes() for path in sorted(FIXTURES.glob("*.txt"))]
PIECES = [
    b"\xff", b"\x00", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\r", b"\t", b"---\n", b"...\n", b"%YAML 1.1\n",
    b"|\n", b">-\n",
]  # fmt: skip
PIECES += rb"""{ } [ ] &a *a <<: !!str ' " ? : - null ~""".split()
PIECES += b"1e999 .nan 0x 010 -1 yes 2026-01-01 99999999999999999999999999".split()
PIECES += [
    b"spec: null\n", b"metadata: 5\n", b"items: [1]\n", b"kind: List\n", b"? ", b": ", b"- ", b"&a ",
    b"*a ", b"<<: *a\n",
]  # fmt: skip


def read_everything(files: dict[str, bytes]) -> None:
    specs = read_specs(Repository(files))
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
    assert all(gang.queue in queues for gang in specs.gangs if gang.scheduling.is_bound or gang.queue)
    assert all(set(h.nodes) <= nodes and set(h.hypernodes) <= domains for h in specs.hypernodes)


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_random_bytes(content: bytes) -> None:
    read_everything({"jobs/a.yaml": content, "cluster-specs/demo/a.yaml": content})


@given(st.text(alphabet="abk:-?{}[]&*!|>'\"%@# \n\t,<.~0129\u00e9\u2028", max_size=120))
@settings(max_examples=300, deadline=None)
def test_random_yaml_like_text(content: str) -> None:
    read_everything({"jobs/a.yaml": content.encode()})


NASTY: dict[str, bytes] = {
    "a bomb of aliases": b"a: &a [x, x, x, x, x, x, x, x]\n"
    + b"".join(b"%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c]\n" % (c, c, *[c - 1] * 7) for c in b"bcdefghi"),
    "a list in itself": b"a: &a [*a]\n",
    "a merge of itself": b"&a\n<<: *a\n",
    "two merges": b"a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n",
    "an alias of nothing": b"a: *nope\n",
    "an anchor twice": b"a: &x 1\nb: &x 2\nc: *x\n",
    "five thousand anchors": b"".join(b"a%d: &x%d 1\n" % (i, i) for i in range(5000)),
    "deep flow lists": b"[" * 5000 + b"]" * 5000,
    "deep flow maps": b"{a: " * 3000 + b"1" + b"}" * 3000,
    "deep lists": b"- " * 3000 + b"x\n",
    "deep maps": b"".join(b" " * i + b"a:\n" for i in range(1500)),
    "keys twice": b"kind: Job\nkind: Queue\n",
    "keys twice in JSON": b'{"kind": "Job", "kind": "Queue"}',
    "an integer of thousands of digits": b"kind: Job\nspec: {replicas: " + b"9" * 5000 + b"}\n",
    "a key of thousands of digits": b"? " + b"9" * 6000 + b"\n: 1\n",
    "no numbers": b"a: .nan\nb: .inf\nc: -.inf\nd: 1e400\n",
    "numbers in all bases": b"a: 0o17\nb: 017\nc: 0b1\nd: 0x1F\ne: 1_000\nf: 190:20:30\n",
    "times that are none": b"a: 2026-13-45\nb: 2026-01-01T99:99:99Z\nc: 0000-00-00\n",
    "keys of every type": b"~: 1\n1: 2\n1.5: 3\ntrue: 4\n? [a, b]\n: c\n? {x: 1}\n: d\n",
    "tags": b"a: !foo bar\nb: !!binary aGVsbG8=\nc: !!set {x, y}\nd: !!omap [x: 1]\n",
    "a tag that runs things": b"a: !!python/object/apply:os.system [x]\n",
    "directives": b"%YAML 9.9\n%FOO bar\n---\na: 1\n",
    "a byte order mark": b"\xef\xbb\xbfkind: Job\n",
    "UTF-16": "kind: Job".encode("utf-16"),
    "UTF-32": "kind: Job".encode("utf-32"),
    "half of a surrogate": b"metadata: {name: \xed\xa0\xbd}\n",
    "line ends of all systems": b"kind: Job\r\nmetadata: {name: a}\rspec: 1\n\x85x: 1\n",
    "tabs": b"kind:\tJob\n\tspec: 1\n",
    "control characters": b"a: \x00\nb: \x07\n",
    "documents of nothing": b"---\n---\n...\n---\nnull\n---\n5\n---\n- 1\n---\n# x\n",
    "three thousand documents": b"---\na: 1\n" * 3000,
    "what never ends": b'a: [1, 2\nb: "x\n',
    "a very long line": b"a: " + b"x" * 200_000 + b"\n",
}


@pytest.mark.parametrize("what", NASTY)
def test_what_is_hard_to_read(what: str) -> None:
    cluster = b"apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\n"
    read_everything({"cluster-specs/demo/a.yaml": NASTY[what]})
    read_everything({"cluster-specs/demo/a.yaml": cluster, "jobs/a.yaml": NASTY[what], "jobs/b.json": NASTY[what]})


def documents(seed: bytes) -> list[bytes]:
    """The repositories of one fixture file, their shorthands made into something that parses."""
    text = seed.replace(b"{{pod}}", b"{spec: {containers: [{name: m, image: a, resources: {requests: {cpu: 1}}}]}}")
    for name in (b"job", b"queue", b"hypernode"):
        kind = {
            b"job": b"batch.volcano.sh/v1alpha1\nkind: Job",
            b"queue": b"scheduling.volcano.sh/v1beta1\nkind: Queue",
        }
        head = kind.get(name, b"topology.volcano.sh/v1alpha1\nkind: HyperNode")
        text = text.replace(b"{{" + name + b"}}", b"apiVersion: " + head + b"\nmetadata: {name: train}")
        for other in (b"a", b"b", b"c", b"team-a", b"company", b"child"):
            text = text.replace(
                b"{{" + name + b" " + other + b"}}", b"apiVersion: " + head + b"\nmetadata: {name: " + other + b"}"
            )
    return [part for part in text.split(b"\n## ") if part.count(b"\n") > 1]


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_mutations_of_valid_repositories(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  - not a secret
    for part in documents(SEEDS[seed]):
        content = bytearray(part.partition(b"\n")[2].partition(b"\n===")[0])
        for _ in range(sample(4)):
            changed = bytearray(content)
            for _ in range(chance.randint(1, 4)):
                place = chance.randrange(len(changed) + 1)
                if chance.random() < 0.5:
                    changed[place:place] = chance.choice(PIECES)
                else:
                    del changed[place : place + chance.randint(1, 30)]
            read_everything({"cluster-specs/demo/a.yaml": bytes(changed), "jobs/b.yaml": bytes(content)})


WRONG: tuple[Any, ...] = (
    None, 5, -1, 1.5, True, "", "text", [], [1], [None], [{}], {}, {"a": {}}, {"": None}, "9" * 400, [[[]]],
)  # fmt: skip


def _paths(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = list(data.items()) if isinstance(data, dict) else list(enumerate(data)) if isinstance(data, list) else []
    return [path, *(deeper for key, value in items for deeper in _paths(value, (*path, key)))]


def test_every_value_of_every_kind_replaced_by_every_wrong_one() -> None:
    """Structure-aware: well-formed YAML, any field of the wrong type or missing."""
    import copy
    import json

    from compiler.syntax.parse import parse_file

    for part in (part for seed in SEEDS for part in documents(seed)):
        parsed = parse_file("a.yaml", part.partition(b"\n")[2].partition(b"\n===")[0])
        for document, _ in parsed.documents[:1]:
            paths, files = _paths(document.data)[1:], dict[str, bytes]()
            for number, path in enumerate(paths[:: max(1, len(paths) // sample(12))]):
                changed = copy.deepcopy(document.data)
                place: Any = changed
                for key in path[:-1]:
                    place = place[key]
                place[path[-1]] = WRONG[(number + len(paths)) % len(WRONG)]
                metadata = changed.get("metadata")
                if isinstance(metadata, dict) and isinstance(name := metadata.get("name"), str) and name:
                    metadata["name"] = f"{name}-{number}"  # for a repository with several of them
                files[f"cluster-specs/demo/{number}.yaml"] = json.dumps(changed).encode()
            read_everything(files)
