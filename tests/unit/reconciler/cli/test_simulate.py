"""`gangplan simulate` as a user calls it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

from compiler.cli.executor import open_executor
from compiler.cli.root import cli
from reconciler.cli import load_tree
from reconciler.cli import simulate as command
from solver.mip.executors import process_executor
from solver.simulation import contrast
from solver.simulation.catalogue import POLICIES
from tests.builders.beside import beside
from tests.builders.git_source import Source

TRACE = """id,submit,duration,requested,devices,queue,priority
first,0,100,120,3,a,0
head,10,50,60,4,a,0
short,20,30,40,1,b,0
late,200,10,20,2,b,5
huge,210,10,20,9,b,0
"""


def simulate(folder: Path, *arguments: str, trace: str = TRACE, machines: str = "4") -> str:
    (folder / "trace.csv").write_text(trace)
    where = ["--machines", machines] if machines else []
    ran = CliRunner().invoke(cli, ["simulate", str(folder / "trace.csv"), *where, *arguments])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def document(folder: Path, *arguments: str, **more: Any) -> Any:
    return json.loads(simulate(folder, *arguments, "-o", "json", **more))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_says_of_each_job_when_and_where(tmp_path: Path, policy: str) -> None:
    found = document(tmp_path, "--policy", policy)
    jobs = {job["id"]: job for job in found["jobs"]}
    assert (found["policy"], [*jobs]) == (policy, ["first", "head", "short", "late", "huge"])
    start = 1 if policy == "volcano" else 0  # let in at the cycle before
    assert (jobs["first"]["submit"], jobs["first"]["start"], jobs["first"]["finish"]) == (0, start, start + 100)
    assert jobs["huge"]["start"] is None
    assert found["waits"]["all"]["started"] == 4


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_of_one_name_are_jobs_of_their_own(tmp_path: Path, policy: str) -> None:
    trace = "id,submit,duration,devices\na,0,10,2\na,0,20,2\na,0,30,4\n"
    jobs = document(tmp_path, "--policy", policy, "--schedule-period", "0.001", trace=trace)["jobs"]
    assert [job["finish"] - job["start"] for job in jobs] == pytest.approx([10, 20, 30])


def test_a_processor_of_a_cluster_without_devices_is_a_core(tmp_path: Path) -> None:
    """And a job that only says its CPU has the pods that nodes can hold."""
    specs = tmp_path / "repo" / "cluster-specs" / "c"
    specs.mkdir(parents=True)
    (specs / "cluster.yaml").write_text(CLUSTER.replace(", nvidia.com/gpu: 8", ""))
    trace = "id,submit,duration,devices,cpu_milli\na,0,10,32,\nb,0,10,1,\nc,0,10,0,100000\n"
    found = document(tmp_path, "--repo", str(tmp_path / "repo"), "--policy", "easy", trace=trace, machines="")
    assert found["devices"] == 128
    assert [job["nodes"] for job in found["jobs"]] == [["gpus-0"], ["gpus-0"], ["gpus-0", "gpus-1"]]
    assert found["usage"]["peak"] == 100 / 128


def test_easy_backfills_and_takes_the_lowest_machines(tmp_path: Path) -> None:
    jobs = {job["id"]: job for job in document(tmp_path, "--policy", "easy")["jobs"]}
    assert jobs["short"]["start"] == 20
    assert jobs["short"]["nodes"] == ["3"]
    assert jobs["head"]["start"] == 100
    assert jobs["late"]["nodes"] == ["0", "1"]


def test_policies_are_compared_in_one_table(tmp_path: Path) -> None:
    text = simulate(tmp_path, "--policy", "easy", "--policy", "fifo")
    assert "5 jobs on 4 x machine, 4 nodes" in text
    assert "Requested times are those of the trace" in text
    assert {line.split()[0] for line in text.splitlines() if "4 of 5" in line} == {"easy", "fifo"}
    easy, fifo = document(tmp_path, "--policy", "easy", "--policy", "fifo")["items"]
    assert (easy["shares"]["b"]["starved"], fifo["shares"]["b"]["starved"]) == (0, 130)
    assert easy["usage"]["shareError"] < fifo["usage"]["shareError"]
    assert ["b", "fifo", "26.5%", "7.4%", "19.1%", "2.2", "min"] in [line.split() for line in text.splitlines()]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    arguments = ("--policy", "gangplan", "--policy", "conservative", "-o", "json")
    assert simulate(tmp_path, *arguments) == simulate(tmp_path, *arguments)


def test_requested_times_from_the_past(tmp_path: Path) -> None:
    trace = "id,submit,duration,devices,user\na,0,10,1,u\nb,20,10,1,u\nc,40,100,1,u\nd,41,5,1,v\n"
    text = simulate(tmp_path, "--requested", "past", "--policy", "easy", trace=trace)
    model = "the mean of the user's last two jobs, else 1 times the real duration"
    assert f"The trace states no requested times: policies assume {model}." in text


def test_outages_and_nodes_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("name,cpu_milli,memory_mib,gpu,model\nx,8000,1024,4,A\ny,8000,1024,4,B\n")
    (tmp_path / "outages.csv").write_text("node,start,end\nx,50,60\n")
    places = ["--nodes", str(tmp_path / "nodes.csv"), "--outages", str(tmp_path / "outages.csv")]
    found = document(tmp_path, *places, "--policy", "easy", machines="")
    assert found["devices"] == 8
    first = next(job for job in found["jobs"] if job["id"] == "first")
    assert (first["start"], first["nodes"], first["restarts"]) == (60, ["x"], 1)
    assert found["usage"]["lostDeviceHours"] == round(3 * 50 / 3600, 6)


def test_maintenance_that_the_repository_declares_is_replayed_where_the_trace_has_dates(tmp_path: Path) -> None:
    specs = tmp_path / "repo" / "cluster-specs" / "c"
    specs.mkdir(parents=True)
    window = '  maintenance: [{start: "2026-03-02T12:00:00Z", duration: 1h}]\n'
    (specs / "cluster.yaml").write_text(CLUSTER.rstrip() + "\n" + window)
    dated = "id,submit,duration,devices\na,2026-03-02T11:59:00Z,600,1\nb,2026-03-02T11:59:00Z,60,1\n"
    arguments = "--repo", str(tmp_path / "repo"), "--policy", "easy"
    found = document(tmp_path, *arguments, trace=dated, machines="")
    assert {job["id"]: (job["start"], job["restarts"]) for job in found["jobs"]} == {"a": (3660, 0), "b": (0, 0)}
    assert "Maintenance: 2, 2.0 node hours; only volcano does not know of it before." in found["assumptions"]
    undated = "id,submit,duration,devices\na,0,600,1\n"
    (job,) = document(tmp_path, *arguments, trace=undated, machines="")["jobs"]
    assert job["start"] == 0


def test_a_sample_with_shared_devices_is_lost_where_it_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("name,cpu_milli,memory_mib,gpu,model\nx,8000,1024,4,A\ny,8000,1024,4,B\n")
    trace = "name,creation_time,deletion_time,num_gpu,gpu_milli,gpu_spec\np,0,9,1,500,A\nq,1,9,2,1000,\nr,2,,1,300,\n"
    found = document(
        tmp_path, "--nodes", str(tmp_path / "nodes.csv"), "--sample", "1.5", "--policy", "fgd", trace=trace, machines=""
    )
    assert 0.8 < found["usage"]["peak"] <= 1
    assert found["waits"]["all"]["started"] < found["waits"]["all"]["jobs"]


SHARED = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time
p,1000,10,1,600,0,50
q,1000,10,1,600,1,60
r,1000,10,1,400,2,70
s,1000,10,2,1000,3,80
t,1000,10,1,300,4,20
u,1000,10,1,1000,5,30
"""


@pytest.mark.parametrize("policy", ["gangplan", "easy", "conservative", "first-fit"])
def test_shared_devices_are_given_out_card_by_card(tmp_path: Path, policy: str) -> None:
    """Of the three cards p and q leave 400 of each of two, which r and t take: whole ones come at 50 and 60."""
    (tmp_path / "nodes.csv").write_text("name,cpu_milli,memory_mib,gpu,model\nx,8000,1024,2,A\ny,8000,1024,1,B\n")
    found = document(tmp_path, "--nodes", str(tmp_path / "nodes.csv"), "--policy", policy, trace=SHARED, machines="")
    jobs = {job["id"]: job for job in found["jobs"]}
    assert {name: jobs[name]["start"] for name in "pqr"} == {"p": 0, "q": 1, "r": 2}
    held = dict.fromkeys(range(200), 0)
    for row, job in zip(SHARED.splitlines()[1:], found["jobs"], strict=True):
        devices, share = (int(cell) for cell in row.split(",")[3:5])
        for second in range(int(job["start"]), int(job["finish"])):
            held[second] += devices * share
    assert max(held.values()) <= 3000
    assert jobs["s"]["nodes"] == ["x"]


def test_jobs_with_and_without_devices_are_planned_together(tmp_path: Path) -> None:
    """A job's devices are those of its own decision, also where jobs without devices come between."""
    lines = [f"w{n},100,1,0,0,{n},{200 if n else 1}\ng{n},100,1,1,{300 + n},{n},200" for n in range(4)]
    trace = "\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time", *lines])
    (tmp_path / "nodes.csv").write_text("name,cpu_milli,memory_mib,gpu,model\nx,8000,1024,2,A\n")
    found = document(tmp_path, "--nodes", str(tmp_path / "nodes.csv"), trace=trace, machines="")
    assert {job["start"] for job in found["jobs"]} == {0, 1, 2, 3}
    assert found["usage"]["peak"] == pytest.approx((300 + 301 + 302 + 303) / 2000)


def test_volcano_decides_at_its_cycles_by_the_configuration_of_the_repository(tmp_path: Path) -> None:
    """Without the plugin priority the older of two jobs is first."""
    specs = tmp_path / "repo" / "cluster-specs" / "c"
    specs.mkdir(parents=True)
    (specs / "cluster.yaml").write_text(CLUSTER)
    trace = "id,submit,duration,devices,priority\nruns,0,100,16,0\nold,10,50,16,0\nhigh,20,50,16,5\n"
    arguments = ["--repo", str(tmp_path / "repo"), "--policy", "volcano", "--schedule-period", "4"]
    for plugins, first in (("[{name: priority}, {name: gang}]", "high"), ("[{name: gang}]", "old")):
        (specs / "scheduler.yaml").write_text(SCHEDULER.format(plugins=plugins))
        found = document(tmp_path, *arguments, trace=trace, machines="")
        assert {job["start"]: job["id"] for job in found["jobs"]}[104] == first


def test_volcano_starts_no_job_on_arrival_so_that_a_sample_would_lose_all(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    sampled = ["--machines", "4", "--policy", "volcano", "--sample", "1"]
    ran = CliRunner().invoke(cli, ["simulate", str(tmp_path / "trace.csv"), *sampled])
    assert (ran.exit_code, "volcano starts none then" in ran.stderr) == (1, True)


def test_limits_of_queues_hold_for_shares_of_devices(tmp_path: Path) -> None:
    """Queue a has two of 16 GPUs: four halves run at a time."""
    specs = tmp_path / "repo" / "cluster-specs" / "c"
    specs.mkdir(parents=True)
    (specs / "cluster.yaml").write_text(CLUSTER)
    (specs / "queues.yaml").write_text(QUEUES.format(a=2))
    lines = [f"j{n},0,0,1,500,0,100,a" for n in range(6)]
    trace = "\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,queue", *lines])
    found = document(tmp_path, "--repo", str(tmp_path / "repo"), trace=trace, machines="")
    assert sorted(job["start"] for job in found["jobs"]) == [0, 0, 0, 0, 100, 100]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--requested", "soon", "--machines", "4"], "expected a positive number or past, not 'soon'"),
        (["--columns", "COLUMNS", "--machines", "4"], "COLUMNS: unknown meaning 'gpus' of a column"),
        (["--outages", "OUTAGES", "--machines", "4"], "Fix: write the columns node (of the cluster), start and end"),
        (["--nodes", "COLUMNS"], "Fix: write the columns name, cpu_milli, memory_mib and gpu"),
    ],
)
def test_bad_input_ends_in_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "COLUMNS").write_text("gpus: a\nid: c\n")
    (tmp_path / "OUTAGES").write_text("node,start,end\nnowhere,1,2\n")
    named = [str(tmp_path / word) if word.isupper() else word for word in arguments]
    ran = CliRunner().invoke(cli, ["simulate", str(tmp_path / "trace.csv"), *named])
    assert ran.exit_code == 1
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


QUEUES = """apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: a}}
spec: {{capability: {{nvidia.com/gpu: {a}}}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: b}}
"""
SCHEDULER = """apiVersion: gangplan.dev/v1alpha1
kind: SchedulerConfiguration
metadata: {{name: volcano-scheduler-configmap, namespace: volcano-system}}
spec:
  actions: [enqueue, allocate, backfill]
  tiers:
  - plugins: {plugins}
"""
CLUSTER = beside(__file__)["cluster"]


@pytest.fixture
def _replays_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay the two sides of a comparison once, however many outputs are made of them: it takes seconds."""
    found: list[Any] = []

    @contextmanager
    def opened(name: str) -> Iterator[Any]:
        def replay(*asked: Any) -> list[Any]:
            if not found:
                found.extend(mapper.map(*asked))
            return found

        with open_executor(name) as mapper:
            yield mock.Mock(map=replay)

    monkeypatch.setattr(command, "open_executor", opened)


@pytest.mark.usefixtures("_replays_once")
def test_a_smaller_queue_waits_longer_and_is_named(tmp_path: Path, source: Source) -> None:
    specs = source.folder / "cluster-specs" / "c"
    specs.mkdir(parents=True)
    (specs / "cluster.yaml").write_text(CLUSTER)
    (specs / "queues.yaml").write_text(QUEUES.format(a=16))
    source.commit()
    (specs / "queues.yaml").write_text(QUEUES.format(a=4))
    lines = [f"{job}{n},{n * 100},90,4,{job[0]}" for n in range(40) for job in ("a", "a-more", "b")]
    (tmp_path / "trace.csv").write_text("\n".join(["id,submit,duration,devices,queue", *lines]))
    arguments = ["simulate", str(tmp_path / "trace.csv"), "--repo", str(source.folder), "--compare", "HEAD.."]
    ran = CliRunner().invoke(cli, arguments, obj=load_tree)
    assert ran.exit_code == 0, ran.output
    assert "Pays: a\n" in ran.stdout
    assert "Better off: no queue\n" in ran.stdout
    assert "The whole trace was replayed: the differences are exact." in ran.stdout
    page = tmp_path / "page.html"
    found = json.loads(CliRunner().invoke(cli, [*arguments, "-o", "json", "--page", str(page)], obj=load_tree).stdout)
    assert "Replay of trace.csv under two revisions" in page.read_text()
    assert found["byQueue"]["b"]["before"] == found["byQueue"]["b"]["after"] == 0
    assert 0 < found["byQueue"]["a"]["low"] == found["byQueue"]["a"]["high"]
    assert found["basis"] == "whole trace"


def test_both_sides_are_compared_in_workers_with_the_same_bytes(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = process_executor(2, min_work=0)
    drawn = mock.Mock(side_effect=contrast.contrasts_by)
    monkeypatch.setattr(contrast, "contrasts_by", drawn)
    specs = source.folder / "cluster-specs" / "c"
    specs.mkdir(parents=True)
    (specs / "cluster.yaml").write_text(CLUSTER)
    source.commit()
    (specs / "cluster.yaml").write_text(CLUSTER.replace("count: 2", "count: 3"))
    lines = [f"j{n},{n * 10},{100 if n % 200 < 120 else 20},{n % 3 + 1},q{n % 2}" for n in range(600)]
    (tmp_path / "trace.csv").write_text("\n".join(["id,submit,duration,devices,queue", *lines]))
    shown = {}
    for executor in ("local", "processes"):
        page = tmp_path / f"{executor}.html"
        where = ["--repo", str(source.folder), "--compare", "HEAD..", "--policy", "easy", "--jobs", "400"]
        arguments = ["simulate", str(tmp_path / "trace.csv"), *where, "--executor", executor, "--page", str(page)]
        if executor == "processes":
            monkeypatch.setattr(command, "open_executor", lambda _: workers)
        ran = CliRunner().invoke(cli, [*arguments, "-o", "json"], obj=load_tree)
        assert ran.exit_code == 0, ran.output
        shown[executor] = ran.stdout, page.read_bytes()
    assert shown["local"] == shown["processes"]
    assert not workers.faults
    assert drawn.call_count == 2 * 3  # once for the page and the answer together: all, queue and devices
    found = json.loads(shown["local"][0])
    assert found["all"]["waits"] == "shorter"
    assert found["basis"] == "certain from windows"
    assert re.fullmatch(
        r"\d+ windows of the trace: \d+ of 600 jobs, and \d+ that run or wait at the beginning \(seed 1\)\.",
        found["assumptions"][0],
    )
    assert "certain from windows of 400 jobs; --jobs 600 replays the whole trace" in found["assumptions"][2]


def test_a_window_is_drawn_by_the_seed(tmp_path: Path) -> None:
    drawn = {}
    for seed in range(1, 20):
        found = document(tmp_path, "--policy", "easy", "--jobs", "2", "--seed", str(seed))
        drawn[tuple(job["id"] for job in found["jobs"])] = found["assumptions"][0]
    assert set(drawn) == {("first", "head"), ("head", "short"), ("short", "late"), ("late", "huge")}
    assert "2 of 5 jobs, from job 4" in drawn["late", "huge"]
    everything = document(tmp_path, "--policy", "easy", "--jobs", "5")
    assert everything == document(tmp_path, "--policy", "easy")


def test_markdown_shows_names_as_text_and_folds_the_groups(tmp_path: Path) -> None:
    text = simulate(tmp_path, "--policy", "easy", "-o", "markdown", trace=TRACE.replace(",a,", ",</pre><b>,"))
    assert text.startswith("### Replay of trace.csv\n\n<pre>\n5 jobs on 4 x machine, 4 nodes\n")
    assert text.index("policy  started") < text.index("<details>") < text.index("&lt;/pre&gt;&lt;b&gt;")
    assert text.count("<pre>") == text.count("</pre>") == 2


def test_a_page_is_written_besides_and_json_has_curves(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = simulate(tmp_path, "--policy", "easy", "--page", str(page))
    assert text == simulate(tmp_path, "--policy", "easy")
    assert "<title>gangplan: Replay of trace.csv</title>" in page.read_text()
    drawn = document(tmp_path, "--policy", "easy")["curves"]
    assert {len(drawn[name]) for name in ("seconds", "utilisation", "waiting", "stranded", "shareError")} == {100}
    assert [*drawn["queues"]] == ["a", "b"]


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    for arguments, said in (
        (["--compare", "main"], "write BASE..HEAD"),
        (["--compare", "main..", "--machines", "4"], "--compare takes one policy"),
    ):
        ran = CliRunner().invoke(cli, ["simulate", str(tmp_path / "trace.csv"), *arguments])
        assert ran.exit_code == 1
        assert said in ran.stderr


def test_a_repository_without_jobs_has_the_devices_of_its_nodes(tmp_path: Path) -> None:
    head = "apiVersion: gangplan.dev/v1alpha1\nkind: "
    pool = f"{head}NodePool\nmetadata: {{name: g}}\nspec: {{count: 2, capacity: {{cpu: 8, nvidia.com/gpu: 4}}}}\n"
    (tmp_path / "cluster-specs/c").mkdir(parents=True)
    (tmp_path / "cluster-specs/c/c.yaml").write_text(f"{head}Cluster\nmetadata: {{name: c}}\nspec: {{}}\n---\n{pool}")
    text = simulate(tmp_path, "--repo", str(tmp_path), "--policy", "easy", machines="")
    assert "5 jobs on 8 x nvidia.com/gpu, 2 nodes" in text


def test_promised_starts_are_compared_with_the_real_ones(tmp_path: Path) -> None:
    rng = random.Random(1)  # noqa: S311
    rows = [f"j{j},{4.5 * j},{rng.randrange(5, 30)},200,1,a,0" for j in range(600)]
    trace = "\n".join([TRACE.splitlines()[0], *rows])
    arguments = ("--policy", "easy", "--promises")
    found = document(tmp_path, *arguments, trace=trace)["promises"]
    assert found["stated"] == 0.8
    assert found["made"] > 100
    assert found["estimates"] > 0
    assert 0.7 < found["inside"] < 0.9
    assert 3 * found["error"] < found["errorByLimits"]
    assert document(tmp_path, *arguments, trace=trace)["promises"] == found
    assert f"{found['inside']:.1%}" in simulate(tmp_path, *arguments, trace=trace)
    assert "promises" not in document(tmp_path, "--policy", "easy", trace=trace)


def test_nothing_is_promised_where_nobody_waits(tmp_path: Path) -> None:
    assert document(tmp_path, "--policy", "easy", "--promises", machines="30")["promises"] is None
