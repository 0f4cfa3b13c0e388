"""The page of a replay: its data, its bytes, and what it may load."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from compiler.views.simulation import POINTS, ContrastView, SimulationView, comparison_page, simulation_page
from solver.simulation.contrast import Trial
from solver.simulation.pieces import Piece
from tests.builders.simulations import job, machines, replay, workload

HOSTILE = "</script><script>alert(1)</script>"


def world(count: int = 2) -> SimulationView:
    jobs = job("a", size=2, runs=20), job("b", runs=10, at=5, queue=1)
    found = workload(machines(count, weights=(1, 1)), *jobs)
    return SimulationView(found, {policy: replay(policy, found) for policy in ("fifo", "easy")}, ["It is a test."])


def embedded(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="plan">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_the_page_holds_the_curves_of_each_policy() -> None:
    shown = embedded(simulation_page(world(), "month.csv"))
    assert shown["title"] == "Replay of month.csv"
    assert [one["name"] for one in shown["replays"]] == ["fifo", "easy"]
    for one in shown["replays"]:
        of_queue = one["curves"]["queues"]["q1"]
        assert {len(values) for values in (one["curves"]["utilisation"], *of_queue.values())} == {POINTS}
        assert "jobs" not in one
        assert one["curves"]["utilisation"][0] == 1


def test_the_page_of_two_revisions_names_whose_waits_change() -> None:
    before, after = ([Piece(world(count).replays["fifo"], 0)] for count in (2, 3))
    shown = embedded(
        comparison_page(ContrastView("main", "head", "fifo", Trial(before, after, 1, is_whole=True), 2, 2, []), "t")
    )
    assert [one["name"] for one in shown["replays"]] == ["before: main", "after: head"]
    assert shown["comparison"]["byQueue"]["q1"]["before"] == 15
    assert shown["comparison"]["byQueue"]["q1"]["after"] == 0


def test_the_same_replay_makes_the_same_bytes_and_loads_nothing() -> None:
    html = simulation_page(world(), "t")
    assert html == simulation_page(world(), "t")
    assert "default-src 'none'" in html
    assert not re.search(r"(?:src|href)=\"(?!#)", html)


def test_no_name_ends_the_data_or_the_title() -> None:
    view = world()
    html = simulation_page(replace(view, replays={HOSTILE: view.replays["easy"]}), HOSTILE)
    assert embedded(html)["replays"][0]["name"] == HOSTILE
    assert html.count("<script") == 2
