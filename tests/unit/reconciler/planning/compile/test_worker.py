"""What goes to the worker (what differs from what it holds), what it remembers and works out for the next compile, and
when it is told of the cluster."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any
from unittest.mock import Mock

import pytest

from compiler.lower import digest, lowering
from compiler.session import Session
from reconciler.planning.compile.process import (
    NO_REQUEST,
    CompileRequest,
    WorkerState,
    compile_request,
    decode_request,
    encode_request,
    prepare_next,
    read_files,
)
from reconciler.planning.snapshot import FormerPlan
from reconciler.timings import TIMINGS
from solver.problem import Node
from tests.builders.compiles import JOB, OTHER, node, request

NODES = [node("gpu-0"), node("gpu-1")]


def asked(**files: bytes) -> CompileRequest:
    return replace(request(**files), state=NODES, clock=1_800_000_000)


def test_what_was_prepared_is_not_worked_out_again_and_the_plan_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    base, more, session = asked(train=JOB), asked(train=JOB, other=OTHER), Session()
    read_files(base.files, session)
    plain = compile_request(more).as_json()
    prepare_next(asked(train=JOB.replace(b"gpu: 4", b"gpu: 1")), session)
    prepare_next(base, session)
    lower = Mock(wraps=lowering._lower_nodes)
    written = Mock(wraps=digest._text)
    monkeypatch.setattr(lowering, "_lower_nodes", lower)
    monkeypatch.setattr(digest, "_text", written)
    assert compile_request(more, session).as_json() == plain
    assert not lower.called
    assert not any(isinstance(item, Node) for call in written.call_args_list for item in _items(call.args[0]))
    changed = {**NODES[1], "spec": {"unschedulable": True}}
    cordoned = compile_request(replace(more, state=[NODES[0], changed]), session)
    assert cordoned.as_json() != plain
    assert lower.call_count == 1, "a node that changed is lowered anew"


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()


def test_a_file_is_known_by_name_and_content_for_as_long_as_the_repository_has_it() -> None:
    session, same = Session(), JOB.replace(b"train", b"other")
    read_files({"jobs/a.yaml": JOB, "jobs/b.yaml": OTHER, "README.md": b"text"}, session)
    kept = session.known("file", OTHER, "jobs/b.yaml")
    assert kept.readings, "what its documents say is known as well"
    read_files({"jobs/a.yaml": same, "jobs/b.yaml": OTHER}, session)
    assert session.known("file", OTHER, "jobs/b.yaml") is kept
    assert session.known("file", same, "jobs/a.yaml") is not None
    assert session.known("file", OTHER, "jobs/c.yaml") is None
    assert session.known("file", JOB, "jobs/a.yaml") is None, "the repository no longer has it"


# ---- when it is told of the cluster


QUIET, LONGEST = TIMINGS.compile.quiet, TIMINGS.compile.longest_unsent


def test_it_is_told_once_nothing_changes_and_not_again() -> None:
    nodes, pods, state = [{"kind": "Node"}], list[object](), WorkerState()
    assert state.send_at() == inf, "nothing was seen"
    state.note_seen((nodes, pods), 1.0)
    state.note_sent(1.0)
    assert state.send_at() == inf
    state.note_seen((nodes, [{"kind": "Pod"}]), 2.0)
    state.note_seen((nodes, [{"kind": "Pod"}]), 4.0)
    assert state.send_at() == 2.0 + QUIET
    state.note_seen((nodes, pods), 6.0)
    assert state.send_at() == 6.0 + QUIET
    state.note_sent(11.0)
    assert state.send_at() == inf


def test_a_cluster_that_never_rests_is_told_of_now_and_then() -> None:
    state = WorkerState()
    state.note_seen(([0],), 0.0)
    state.note_sent(0.0)
    for now in range(1, 200):
        state.note_seen(([now],), float(now))
    assert state.send_at() == LONGEST


FILES = {"a.yaml": b"kind: A", "b.yaml": b"kind: B\xff"}


def state_node(name: str, version: int = 1) -> dict[str, Any]:
    labels = {"text": f"{name} has much to say of itself"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "version": version, "labels": labels}}


STATE = [state_node(name) for name in "abcdef"]
HELD = CompileRequest("", "", FILES, {}, state=STATE)


def request_of(state: list[dict[str, Any]], files: dict[str, bytes] = FILES) -> CompileRequest:
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
        former=FormerPlan([(("default", "train", "Job"), {"worker": {"a": 2, "b": 1}})], "1.16"),
    )


@pytest.mark.parametrize(
    "state",
    [
        [],
        STATE,
        STATE[1:],
        [*STATE[:2], *STATE[3:]],
        [STATE[0], state_node("b", 2), *STATE[2:]],
        [state_node("0"), *STATE],
        [*STATE, state_node("g")],
        [state_node("0"), STATE[0], state_node("a1"), *STATE[1:4]],
        list(reversed(STATE)),
        [STATE[0], STATE[0], STATE[1]],
        [{**STATE[0], "kind": "Pod"}, {**STATE[0], "metadata": {**STATE[0]["metadata"], "namespace": "team"}}],
    ],
)
@pytest.mark.parametrize("held", [NO_REQUEST, HELD])
def test_what_is_read_is_what_was_asked(held: CompileRequest, state: list[dict[str, Any]]) -> None:
    for files in (FILES, {"a.yaml": b"kind: C", "c.yaml": b""}):
        asked = request_of(state, files)
        assert decode_request(encode_request(asked, held), held) == asked


def test_only_what_is_new_is_written_and_the_rest_stays_the_same_object() -> None:
    asked = request_of([*STATE[:3], state_node("d", 2), *STATE[4:]], {**FILES, "c.yaml": b"kind: C"})
    text = encode_request(asked, HELD)
    assert text.count(b"much to say") == 1
    assert b'"a.yaml": null' in text
    read = decode_request(text, HELD)
    assert [one is other for one, other in zip(read.state, STATE, strict=True)] == [True] * 3 + [False] + [True] * 2
