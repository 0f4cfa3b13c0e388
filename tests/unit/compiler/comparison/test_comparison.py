"""What a change of a repository does: each kind of change with its reason, and nothing where nothing changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from compiler.cluster_state.state import ClusterState
from compiler.comparison import Comparison, Compile, compare
from compiler.comparison.render import (
    MARKDOWN_LIMIT,
    comparison_document,
    comparison_markdown,
    comparison_text,
    summary,
)
from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.repository import Repository

POOL = """\
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {name: n}
spec: {count: 4, capacity: {cpu: 32, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}
"""
SCHEDULER = """\
apiVersion: gangplan.dev/v1alpha1
kind: SchedulerConfiguration
metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}
spec:
  actions: [enqueue, allocate, backfill]
  tiers:
  - plugins: [{name: priority}, {name: gang}, {name: conformance}]
  - plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
"""
RECLAIMING = SCHEDULER.replace("[enqueue, allocate, backfill]", "[allocate, reclaim]").replace(
    "{name: gang}", "{name: gang, enableReclaimable: false}"
)
Files = Mapping[str, str]


def queue(name: str, **gpus: int) -> str:
    said = ", ".join(f"{field}: {{nvidia.com/gpu: {amount}}}" for field, amount in gpus.items())
    return (
        f"apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {name}}}\n"
        f"spec: {{reclaimable: true{', ' if said else ''}{said}}}\n"
    )


def job(name: str, pods: int, gpus: int = 8, queue: str = "a", image: str = "x") -> str:
    pod: dict[str, Any] = {
        "containers": [{"name": "m", "image": image, "resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    }
    tasks = [{"name": "w", "replicas": pods, "template": {"spec": pod}}]
    spec = {"schedulerName": "volcano", "queue": queue, "minAvailable": pods, "tasks": tasks}
    metadata = {"name": name, "namespace": "ns", "annotations": {"gangplan.dev/submitted-at": "2026-01-01T00:00:00Z"}}
    return json.dumps({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec})


BASE: Files = {
    "cluster-specs/demo/nodes.yaml": POOL,
    "cluster-specs/demo/scheduler.yaml": SCHEDULER,
    "cluster-specs/demo/queues.yaml": queue("a", capability=32, deserved=32),
    "jobs/one.yaml": job("one", 2),
    "jobs/two.yaml": job("two", 2),
    "jobs/three.yaml": job("three", 1),
}


def compile_of(files: Files) -> Compile:
    tree = Repository({name: text.encode() for name, text in files.items()})

    def compile_against(state: ClusterState | None) -> Any:
        return compile_repository(tree, None, state)

    return compile_against


def changes(base: Files, head: Files) -> Comparison:
    tree = Repository({name: text.encode() for name, text in head.items()})
    return compare(compile_of(base), compile_of(head), read_specs(tree), None)


def without(files: Files, name: str) -> Files:
    return {path: text for path, text in files.items() if path != name}


def found_jobs(comparison: Comparison) -> dict[str, str]:
    return {each.name: each.effect for each in comparison.jobs}


def test_a_capability_of_zero_is_an_amount_and_not_none() -> None:
    before, after = ({**BASE, "cluster-specs/demo/b.yaml": queue("b", capability=amount)} for amount in (8, 0))
    (changed,) = changes(before, after).queues
    assert changed.after is not None
    assert changed.after["capability"]["nvidia.com/gpu"] == 0
    assert "b: capability 8 -> 0 GPUs" in comparison_text([changes(before, after)], "x", "y")


def test_the_same_files_and_an_edit_of_comments_change_nothing() -> None:
    assert changes(BASE, BASE).is_empty
    comparison = changes(BASE, {**BASE, "jobs/one.yaml": "# a note\n" + BASE["jobs/one.yaml"]})
    assert comparison.is_empty
    assert summary(comparison) == "no changes"


def test_a_job_that_leaves_lets_another_start() -> None:
    comparison = changes(BASE, without(BASE, "jobs/one.yaml"))
    assert found_jobs(comparison) == {"ns/one": "removed", "ns/three": "starts"}
    (started,) = (each for each in comparison.jobs if each.effect == "starts")
    assert "ask" in started.why or "free" in started.why
    assert not comparison.breaks
    (held,) = (each for each in comparison.queues if each.name == "a")
    assert held.before
    assert held.after
    assert (held.before["held"]["nvidia.com/gpu"], held.after["held"]["nvidia.com/gpu"]) == (32, 24)


def test_a_new_job_starts_waits_or_can_never_start() -> None:
    small = without(BASE, "jobs/two.yaml")
    assert found_jobs(changes(small, {**small, "jobs/n.yaml": job("new", 1)})) == {"ns/new": "starts"}
    assert found_jobs(changes(BASE, {**BASE, "jobs/n.yaml": job("new", 1)})) == {"ns/new": "waits"}
    assert found_jobs(changes(BASE, {**BASE, "jobs/n.yaml": job("new", 1, gpus=9)})) == {"ns/new": "never"}


def test_what_runs_stays_where_it_is_and_an_edited_job_runs_anew() -> None:
    small = without(BASE, "jobs/one.yaml")
    comparison = changes(small, {**small, "jobs/three.yaml": job("three", 1, image="y")})
    (found,) = comparison.jobs
    assert (found.effect, found.why) == ("edited", "spec.tasks[0].template.spec.containers[0].image x -> y")
    assert found.before == found.after
    assert "  Job that is edited\n    ns/three in queue a: spec.tasks[0]" in comparison_text([comparison], "x", "y")
    edited = {**BASE, "jobs/one.yaml": job("one", 4)}
    comparison = changes(BASE, edited)
    effects = found_jobs(comparison)
    assert effects["ns/one"] == "waits"
    assert "ns/two" not in effects
    assert next(each for each in comparison.jobs if each.name == "ns/one").is_edited


def test_an_edited_job_that_waits_as_before_is_named_with_the_line_of_the_edit() -> None:
    before = {**BASE, "jobs/n.yaml": job("new", 1, gpus=9).replace(', "tasks"', ',\n"maxRetry": 3,\n"tasks"')}
    after = {**before, "jobs/n.yaml": before["jobs/n.yaml"].replace('"maxRetry": 3', '"maxRetry": 4')}
    (found,) = changes(before, after).jobs
    assert (found.name, found.effect, found.why) == ("ns/new", "edited", "spec.maxRetry 3 -> 4; it waits as before")
    assert "it waits as before; see jobs/n.yaml:2" in comparison_text([changes(before, after)], "x", "y")


def test_the_line_of_the_cause_is_named() -> None:
    """Of a job that waits the reason's, of one that goes the job's for which it makes room; in JSON all of them."""
    never = changes(BASE, {**BASE, "cluster-specs/demo/queues.yaml": queue("a", capability=8, deserved=8)})
    new = changes(BASE, {**BASE, "jobs/n.yaml": job("new", 1, gpus=9)})
    assert never.jobs == ()  # what runs stays
    text = comparison_text([new], "x", "y")
    assert "see cluster-specs/demo/nodes.yaml:4 capacity, jobs/n.yaml:1 request of role w" in text
    (entry,) = comparison_document([new], "x", "y")["clusters"][0]["jobs"]
    assert [(each["object"], each["line"]) for each in entry["from"]] == [("NodePool n", 4), ("Job ns/new", 1)]
    full = {path: text for path, text in BASE.items() if not path.startswith("jobs/")}
    full |= {"cluster-specs/demo/scheduler.yaml": RECLAIMING, "jobs/one.yaml": job("one", 4)}
    full["cluster-specs/demo/queues.yaml"] = queue("a", deserved=16) + "---\n" + queue("b", deserved=16)
    taken = changes(full, {**full, "jobs/late.yaml": job("late", 1, queue="b")})
    (lost,) = (each for each in taken.jobs if each.effect in ("evicted", "shrinks"))
    assert [source.short_text for source in lost.sources] == ["jobs/late.yaml:1"]


def test_a_job_of_another_queue_is_named_with_its_queues() -> None:
    both = {**without(BASE, "jobs/one.yaml"), "cluster-specs/demo/b.yaml": queue("b", deserved=8)}
    (found,) = changes(both, {**both, "jobs/three.yaml": job("three", 1, queue="b")}).jobs
    assert (found.name, found.effect, found.why) == ("ns/three", "edited", "spec.queue a -> b")


def test_a_job_that_waits_for_another_reason_names_what_is_new_or_gone() -> None:
    wide = {**BASE, "cluster-specs/demo/queues.yaml": queue("a", capability=48)}
    (narrowed,) = (each for each in changes(wide, BASE).jobs if each.name == "ns/three")
    (widened,) = (each for each in changes(BASE, wide).jobs if each.name == "ns/three")
    limit = "queue a may hold 32 nvidia.com/gpu and has 0 left; the job asks for 8"
    assert (narrowed.effect, narrowed.why) == ("reason", limit)
    assert widened.why.endswith(f"; no longer: {limit}")


def test_rules_of_queues_beside_their_amounts_are_compared() -> None:
    text = BASE["cluster-specs/demo/queues.yaml"].replace("spec: {", "spec: {weight: 3, priority: 2, ")
    comparison = changes(BASE, {**BASE, "cluster-specs/demo/queues.yaml": text})
    assert comparison.resources == ("Queue a: weight 1 -> 3", "Queue a: priority 0 -> 2")


def test_a_changed_document_with_generate_name_is_another_job_and_no_finding() -> None:
    files = {path: BASE[path] for path in BASE if not path.startswith("jobs/")}
    base = {**files, "jobs/g.yaml": job("g", 1).replace('"name": "g"', '"generateName": "g-"')}
    head = {**base, "jobs/g.yaml": base["jobs/g.yaml"].replace('"image": "x"', '"image": "y"')}
    found = changes(base, head)
    assert sorted(found_jobs(found).values()) == ["removed", "starts"]
    assert not found.new_findings
    assert not found.mended_findings


def test_a_queue_that_shrinks_and_a_scheduler_that_reclaims_are_said() -> None:
    head = {
        **BASE,
        "cluster-specs/demo/queues.yaml": queue("a", capability=32, deserved=16) + "---\n" + queue("b", deserved=16),
        "cluster-specs/demo/scheduler.yaml": RECLAIMING,
        "jobs/b.yaml": job("b", 2, queue="b"),
    }
    comparison = changes(BASE, head)
    kinds = found_jobs(comparison)
    assert kinds.pop("ns/b") == "starts"
    assert "evicted" in kinds.values()
    assert comparison.scheduler[0] == "action reclaim is new: it takes back what other queues borrowed"
    assert comparison.scheduler[-1] == "plugin gang: enableReclaimable not set -> false"
    assert {each.name for each in comparison.queues} == {"a", "b"}


def test_plugins_flags_and_arguments_are_compared() -> None:
    head = SCHEDULER.replace("{name: gang}", "{name: gang, enablePreemptable: false}").replace(
        "{name: nodeorder}", "{name: binpack, arguments: {binpack.weight: 10}}"
    )
    comparison = changes(BASE, {**BASE, "cluster-specs/demo/scheduler.yaml": head})
    assert [line.partition(":")[0] for line in comparison.scheduler] == [
        "plugin binpack is new in tier 2",
        "plugin gang",
        "plugin nodeorder is gone, which meant",
    ]
    assert not comparison.jobs


def test_findings_are_new_or_mended_and_only_new_errors_break() -> None:
    broken = {**BASE, "jobs/bad.yaml": job("bad", 1).replace('"minAvailable": 1', '"minAvailable": "two"')}
    comparison = changes(BASE, broken)
    assert [each.severity for each in comparison.new_findings] == ["error"]
    assert comparison.breaks
    back = changes(broken, BASE)
    assert not back.new_findings
    assert len(back.mended_findings) == 1
    assert [each.why for each in changes({**BASE, "jobs/bad.yaml": job("bad", 1, gpus=1)}, broken).jobs] == [
        "it has an error in the new revision"
    ]
    assert not back.breaks
    moved = {**broken, "jobs/bad.yaml": "\n\n" + broken["jobs/bad.yaml"]}
    assert changes(broken, moved).is_empty


def test_labels_and_taints_that_differ_are_named() -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n-9, labels: {gpu: a100, zone: east}}\n"
    status = "status: {allocatable: {cpu: 8}}\n"
    before = {**BASE, "cluster-specs/demo/node.yaml": node + status}
    tainted = "spec: {taints: [{key: dedicated, effect: NoSchedule}]}\n"
    after = {**before, "cluster-specs/demo/node.yaml": node.replace("a100", "h100") + tainted + status}
    assert changes(before, after).resources == ("1 node with other label gpu, taint dedicated: n-9",)


def test_nodes_domains_priorities_and_policy_are_compared() -> None:
    urgent = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 1000\n"
    cluster = "apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\n"
    before = {**BASE, "cluster-specs/demo/more.yaml": f"{urgent}---\n{cluster}"}
    more = f"{urgent.replace('1000', '500')}---\n{cluster}spec: {{order: priorities-first}}\n"
    pool = POOL.replace("count: 4", "count: 6, topology: [{name: rack, size: 2}]").replace("cpu: 32", "cpu: 48")
    after = {**before, "cluster-specs/demo/nodes.yaml": pool, "cluster-specs/demo/more.yaml": more}
    comparison = changes(before, after)
    assert comparison.resources == (
        "2 nodes new: n-4, n-5",
        "4 nodes with other cpu: n-0 to 3",
        "in all 128 -> 288 cpu",
        "in all 256Gi -> 384Gi memory",
        "in all 32 -> 48 GPUs",
        "3 network domains changed: n-rack-0 to 2",
        "PriorityClass urgent: value 1000 -> 500",
        "Cluster: order queues-first -> priorities-first",
    )
    assert "nodes or policy changed" in summary(comparison)
    assert "  Nodes and policy\n    2 nodes new: n-4, n-5\n" in comparison_text([comparison], "main", "topic")


def test_a_cluster_that_is_new_compares_with_nothing() -> None:
    comparison = changes({}, BASE)
    assert set(found_jobs(comparison).values()) == {"starts", "waits"}
    assert all(each.is_new for each in comparison.jobs)


@pytest.mark.parametrize("count", [1, 3000])
def test_a_comment_is_short_enough_and_says_what_it_leaves_out(count: int) -> None:
    comparison = changes(BASE, {**BASE, "jobs/n.yaml": job("new", 1)})
    many = Comparison("demo", comparison.jobs * count, (), (), (), ())
    text = comparison_markdown([many], "main", "topic")
    assert len(text) <= MARKDOWN_LIMIT
    assert ("more: `gangplan diff`" in text) == (count > 1)
    assert f"{count} job" in text


def test_names_of_strangers_do_not_become_markup() -> None:
    comparison = Comparison("demo", (), (), ("plugin @team <b>x</b> `y`",), (), ())
    text = comparison_markdown([comparison], "main", "topic")
    assert "@team" not in text
    assert "<b>" not in text


def test_text_and_data_say_the_same() -> None:
    comparison = changes(BASE, without(BASE, "jobs/one.yaml"))
    text = comparison_text([comparison], "main", "topic")
    assert "1 job is removed, 1 job starts" in text
    assert "a: held 32 -> 24 GPUs" in text
    document = json.loads(json.dumps(comparison_document([comparison], "main", "topic")))
    assert [each["change"] for each in document["clusters"][0]["jobs"]] == ["removed", "starts"]
