"""The data of the report's page, and how it is put into the page."""

from __future__ import annotations

import json
import re
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import load_state
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views.data import plan_document
from compiler.views.report import page
from compiler.views.report.page import MAX_SOURCES, report_document, report_page

CASES = Path(__file__).parents[3] / "golden"


@cache
def outcome_of(case: str) -> Outcome:
    state = CASES / case / "state.yaml"
    tree = Repository.from_directory(CASES / case / "repo")
    return compile_repository(tree, state=load_state(state.read_bytes()) if state.is_file() else None)


def document_of(case: str) -> dict[str, Any]:
    return report_document(outcome_of(case))


def jobs_of(case: str) -> dict[str, dict[str, Any]]:
    return {job["name"]: job for job in document_of(case)["gangs"]}


def column(runs: list[list[Any]]) -> list[Any]:
    return [value for value, number in runs for _ in range(number)]


def embedded(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="plan">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("case", ["preempt", "reservation", "lending", "empty"])
def test_the_page_holds_what_the_plan_for_scripts_holds(case: str) -> None:
    plan: dict[str, Any] = dict(plan_document(outcome_of(case)))
    shown = embedded(report_page(outcome_of(case)))
    jobs, entries = shown.pop("gangs"), plan.pop("gangs")
    assert all(shown[name] == value for name, value in plan.items())
    for job, entry in zip(jobs, entries, strict=True):
        for name in set(entry) - {"reasons", "repairs"}:
            assert job[name] == entry[name]
        for field in ("reasons", "repairs"):
            assert [(each["code"], each["message"]) for each in job[field]] == [
                (each["code"], each["message"]) for each in entry[field]
            ]


def test_reasons_name_few_sources_and_count_the_rest() -> None:
    for decided, job in zip(outcome_of("queue-limit").decisions, document_of("queue-limit")["gangs"], strict=True):
        for reason, shown in zip(decided.reasons, job["reasons"], strict=True):
            assert len(shown.get("from", ())) == min(MAX_SOURCES, len(reason.sources))
            assert shown.get("moreSources", 0) == max(0, len(reason.sources) - MAX_SOURCES)
            assert "gangs" not in shown


def test_nodes_are_columns_and_what_others_hold_is_apart() -> None:
    document = document_of("lending")
    nodes, problem = document["nodes"], outcome_of("lending").problem
    assert problem is not None
    assert nodes["name"] == [node.name for node in problem.nodes]
    assert column(nodes["domain"]) == [node.leaf for node in problem.nodes]
    at = problem.resources.index("nvidia.com/gpu")
    assert column(nodes["capacity"]["nvidia.com/gpu"]) == [node.capacity[at] for node in problem.nodes]
    assert nodes["others"] == {}
    assert nodes["closed"] == []


NODE = """\
apiVersion: v1
kind: Node
metadata: {name: NAME}
spec: {unschedulable: CORDONED}
status: {allocatable: {cpu: "32", memory: 64Gi, pods: "110", nvidia.com/gpu: "8"}}
"""
FOREIGN_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "stranger", "namespace": "elsewhere"},
    "spec": {"nodeName": "open", "containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "3"}}}]},
    "status": {"phase": "Running"},
}


def test_a_cordoned_node_is_closed_and_strange_pods_are_others() -> None:
    nodes = NODE.replace("NAME", "closed").replace("CORDONED", "true")
    nodes += "---\n" + NODE.replace("NAME", "open").replace("CORDONED", "false")
    files = Repository.from_directory(CASES / "deadlock/repo").files
    tree = Repository({**files, "cluster-specs/test/gpu.yaml": nodes.encode()})
    state = load_state(json.dumps({"apiVersion": "v1", "kind": "List", "items": [FOREIGN_POD]}).encode())
    shown = report_document(compile_repository(tree, state=state))["nodes"]
    assert [shown["name"][at] for at in shown["closed"]] == ["closed"]
    others = dict(zip(shown["name"], column(shown["others"]["nvidia.com/gpu"]), strict=True))
    assert others == {"closed": 0, "open": 3}
    assert column(shown["capacity"]["nvidia.com/gpu"]) == [8, 8]


def test_a_victim_says_which_pods_it_loses_and_a_job_what_one_pod_asks_for() -> None:
    jobs = jobs_of("preempt")
    assert jobs["sweep"]["evicted"]
    assert jobs["sweep"]["evictedFor"] == ["vision/release"]
    release = jobs["release"]
    assert set(release["requests"]) == set(release["replicas"])
    assert all("pods" not in request for request in release["requests"].values())


def test_what_ran_before_is_given_where_it_differs() -> None:
    jobs = jobs_of("preempt")
    assert jobs["sweep"]["before"] == jobs["sweep"]["evicted"]
    assert "before" not in jobs["nas-trial-2"]  # it keeps what it has
    assert "before" not in jobs["release"]  # it starts, and had nothing


def test_reserved_room_and_times_are_given_in_seconds_from_now() -> None:
    document, plan = document_of("reservation"), outcome_of("reservation").plan
    assert plan is not None
    assert plan.reservation is not None
    (job,) = (job for job in document["gangs"] if "reserved" in job)
    pods = sum(number for places in job["reserved"].values() for number in places.values())
    assert pods == sum(place.pods for place in plan.reservation.placements)
    assert job.get("startsIn") == plan.reservation.starts_in


def test_the_same_input_makes_the_same_bytes() -> None:
    assert report_page(outcome_of("running")) == report_page(outcome_of("running"))


def test_no_text_of_a_plan_ends_the_data_or_the_title() -> None:
    hostile = "</script><script>alert(1)</script><!--\u2028\u202e\"'&\ud800"
    html = page.page_of({**document_of("empty"), "cluster": hostile})
    assert embedded(html)["cluster"] == hostile
    assert html.count("<script") == 2
    title = re.search("<title>(.*?)</title>", html)
    assert title
    assert "<" not in title[1]
    assert "alert(1)" in unescape(title[1])
    html.encode()


def test_the_page_loads_nothing_and_says_so_to_the_browser() -> None:
    html = report_page(outcome_of("empty"))
    assert "default-src 'none'" in html
    assert not re.search(r"(?:src|href)=\"(?!#)", html)
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", html).replace("http-equiv", "")


def test_every_script_is_in_the_page_once() -> None:
    folder = Path(page.__file__).parent
    assert sorted({*page.SCRIPTS, *page.LIVE, *page.REPLAY}) == sorted(file.stem for file in folder.glob("*.js"))
