"""A request goes to the worker as what differs from the inputs that the worker holds, and is read back whole."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.compile.process import CompileRequest, HeldInputs, decode_request, encode_request

FILES = {"a.yaml": b"kind: A", "b.yaml": b"kind: B\xff"}


def node(name: str, version: int = 1) -> dict[str, Any]:
    labels = {"text": f"{name} has much to say of itself"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "version": version, "labels": labels}}


NODES = [node(name) for name in "abcdef"]
HELD = HeldInputs(FILES, NODES)


def request(state: list[dict[str, Any]], files: dict[str, bytes] = FILES) -> CompileRequest:
    return CompileRequest(
        "c0ffee",
        "test",
        files,
        {"a.yaml": 7},
        problems=[],
        state=state,
        finished_jobs=[("default", "train", "Job")],
        held_jobs=[(("default", "train", "Job"), "it waits")],
        closed_nodes=[(("default", "train", "Job"), ["a"])],
        former_places=[(("default", "train", "Job"), {"worker": {"a": 2, "b": 1}})],
    )


@pytest.mark.parametrize(
    "state",
    [
        [],
        NODES,
        NODES[1:],
        [*NODES[:2], *NODES[3:]],
        [NODES[0], node("b", 2), *NODES[2:]],
        [node("0"), *NODES],
        [*NODES, node("g")],
        [node("0"), NODES[0], node("a1"), *NODES[1:4]],
        list(reversed(NODES)),
        [NODES[0], NODES[0], NODES[1]],
        [{**NODES[0], "kind": "Pod"}, {**NODES[0], "metadata": {**NODES[0]["metadata"], "namespace": "team"}}],
    ],
)
@pytest.mark.parametrize("held", [HeldInputs(), HELD])
def test_what_is_read_is_what_was_asked(held: HeldInputs, state: list[dict[str, Any]]) -> None:
    for files in (FILES, {"a.yaml": b"kind: C", "c.yaml": b""}):
        asked = request(state, files)
        assert decode_request(encode_request(asked, held), held) == asked


def test_only_what_is_new_is_written_and_the_rest_stays_the_same_object() -> None:
    asked = request([*NODES[:3], node("d", 2), *NODES[4:]], {**FILES, "c.yaml": b"kind: C"})
    text = encode_request(asked, HELD)
    assert text.count(b"much to say") == 1
    assert b'"a.yaml": null' in text
    read = decode_request(text, HELD)
    assert [one is other for one, other in zip(read.state, NODES, strict=True)] == [True] * 3 + [False] + [True] * 2
