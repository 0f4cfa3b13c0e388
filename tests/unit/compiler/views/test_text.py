"""The plan as text on little room: many jobs are counted, and no row is wider than the terminal."""

from __future__ import annotations

from functools import cache

import pytest

from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.views.selection import ALL, Selection
from compiler.views.style import Style
from compiler.views.text import plan_text
from tests.builders import declared, repositories
from tests.builders.declared import GPU, Object, pod_spec

QUEUES = [f"a-queue-with-a-name-{q:02}" for q in range(15)]


def job(name: str, queue: str, pods: int, gpus: int) -> Object:
    return declared.job(name, pods, pod_spec({GPU: gpus}, restartPolicy="Never"), queue=queue)


@cache
def many() -> Outcome:
    """Jobs of 15 queues: 45 that fit, and two of each queue that can never start."""
    jobs = [job(f"small-{n:02}", QUEUES[n % 15], 2, 1) for n in range(45)]
    jobs += [job(f"too-large-for-any-node-{n:02}", QUEUES[n % 15], 1, 16) for n in range(30)]
    limits: Object = {"guarantee": {"resource": {GPU: 1}}, "capability": {GPU: 60}, "deserved": {GPU: 5}}
    topology = [{"name": "sn", "size": 4}, {"name": "spine", "size": 2}]
    pool = declared.node_pool(16, 8, "h100", topology=topology)
    queues = [declared.queue(name, **limits) for name in QUEUES]
    return compile_repository(repositories.repository(declared.cluster(), pool, *queues, *jobs))


def lines(selection: Selection = ALL, width: int = 60) -> list[str]:
    return plan_text(many(), Style(width=width), selection=selection).splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("selection", [ALL, Selection(is_summary=True), Selection(decisions=("start", "wait"))])
def test_no_row_is_wider_than_the_terminal(selection: Selection, width: int) -> None:
    assert [line for line in lines(selection, width) if len(line) > width] == []


def test_many_jobs_are_counted_by_domain_reason_and_queue() -> None:
    shown = lines(width=100)
    assert len(shown) < 48  # two screens of 24 rows
    domains = [line for line in shown if "h100-spine-" in line and " jobs: " in line]
    assert domains
    assert all("more" in line for line in domains), "as many queues as fit, in one row"
    assert not [line for line in shown if "small-" in line or "too-large-" in line]
    told = "\n".join(lines(Selection(decisions=("start",))))
    assert all(name in told for name in ("small-00", "small-44"))


def test_the_heat_map_counts_free_devices_by_node() -> None:
    at = (shown := lines(width=100)).index("Free GPUs by supernode (· none to █ all)")
    assert shown[at + 1 : at + 3] == [
        "  h100-spine-0  ··  none free on 8 nodes",
        "  h100-spine-1  ░█  8 of 8 free on 4 nodes, 6 of 8 on 1 node",
    ]


def test_the_summary_is_a_table_of_reasons_and_queues_without_names() -> None:
    shown = lines(Selection(is_summary=True), width=100)
    at = next(n for n, line in enumerate(shown) if line.startswith("Waits"))
    assert shown[at] == "Waits: 30 jobs, by their first reason and queue"
    assert [line.split()[-1] for line in shown[at + 1 : at + 3]] == ["all", "30"]
    assert not [line for line in shown if "small" in line or "too-large" in line]
