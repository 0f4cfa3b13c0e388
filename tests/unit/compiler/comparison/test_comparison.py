"""What a change of a repository does: each kind of change with its reason, and nothing where nothing changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.comparison.compare import NO_CHANGES, Comparison, Revision, compare
from compiler.comparison.jobs import lost_restarts
from compiler.comparison.render import (
    MARKDOWN_LIMIT,
    comparison_document,
    comparison_markdown,
    comparison_sarif,
    comparison_text,
    summary,
)
from compiler.outcome import Outcome
from compiler.pipeline import compile_specs
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders import declared
from tests.builders.beside import beside
from tests.builders.outputs import assert_conforms

POOL = """\
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {name: n}
spec: {count: 4, capacity: {cpu: 32, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}
"""
SCHEDULER = beside(__file__)["scheduler"]
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
    pod = {"containers": [{"name": "m", "image": image, "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}
    spec: dict[str, Any] = {"schedulerName": "volcano", "queue": queue, "minAvailable": pods}
    submitted = {"gangplan.dev/submitted-at": "2026-01-01T00:00:00Z"}
    return json.dumps(declared.job(name, pods, pod, namespace="ns", annotations=submitted, **spec))


BASE: Files = {
    "cluster-specs/demo/nodes.yaml": POOL,
    "cluster-specs/demo/scheduler.yaml": SCHEDULER,
    "cluster-specs/demo/queues.yaml": queue("a", capability=32, deserved=32),
    "jobs/one.yaml": job("one", 2),
    "jobs/two.yaml": job("two", 2),
    "jobs/three.yaml": job("three", 1),
}


def revision(files: Files) -> Revision:
    tree = Repository({name: text.encode() for name, text in files.items()})
    specs = read_specs(tree)

    def compile_against(state: ClusterState | None) -> Outcome:
        return compile_specs(tree, specs, state)

    return Revision(specs, compile_against)


def changes(base: Files, head: Files, state: ClusterState | None = None) -> Comparison:
    found = compare(revision(base), revision(head), state)
    assert_conforms("diff", comparison_document([found], "base", "head"))
    return found


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
    assert not comparison.fails("error")
    (held,) = (each for each in comparison.queues if each.name == "a")
    assert held.before
    assert held.after
    assert (held.before["held"]["nvidia.com/gpu"], held.after["held"]["nvidia.com/gpu"]) == (32, 24)


def test_a_new_job_starts_waits_or_can_never_start() -> None:
    small = without(BASE, "jobs/two.yaml")
    assert found_jobs(changes(small, {**small, "jobs/n.yaml": job("new", 1)})) == {"ns/new": "starts"}
    assert found_jobs(changes(BASE, {**BASE, "jobs/n.yaml": job("new", 1)})) == {"ns/new": "waits"}
    assert found_jobs(changes(BASE, {**BASE, "jobs/n.yaml": job("new", 1, gpus=9)})) == {"ns/new": "never"}


def test_a_new_job_without_pods_of_its_own_is_named() -> None:
    template = "{template: {spec: {restartPolicy: Never, containers: [{name: m, image: x}]}}}"
    spec = f"{{schedule: 0 * * * *, jobTemplate: {{spec: {template}}}}}"
    cron = f"apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: c, namespace: ns}}\nspec: {spec}\n"
    assert found_jobs(changes(BASE, {**BASE, "jobs/c.yaml": cron})) == {"ns/c": "added"}


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
    assert [each.name for each in never.lost_restarts] == ["ns/one", "ns/two"]
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


def test_a_job_that_waits_for_another_reason_names_what_is_new_or_gone() -> None:
    wide = {**BASE, "cluster-specs/demo/queues.yaml": queue("a", capability=48)}
    (narrowed,) = (each for each in changes(wide, BASE).jobs if each.name == "ns/three")
    (widened,) = (each for each in changes(BASE, wide).jobs if each.name == "ns/three")
    limit = "queue a may hold 32 nvidia.com/gpu and has 0 left; the job asks for 8"
    assert (narrowed.effect, narrowed.why) == ("reason", limit)
    assert widened.why.endswith(f"; no longer: {limit}")


def test_what_can_never_start_has_the_reasons_of_the_empty_cluster() -> None:
    """With what is full now, nothing becomes another reason of a job that waits for none of it."""
    pool = POOL.replace("nvidia.com/gpu: 8}", "nvidia.com/gpu: 8}, topology: [{name: sn, size: 2}]")
    wide = json.loads(job("wide", 3))
    wide["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    files = {**without(BASE, "jobs/one.yaml"), "jobs/wide.yaml": json.dumps(wide)}
    six, four = ({**files, "cluster-specs/demo/nodes.yaml": pool.replace("count: 4", f"count: {n}")} for n in (6, 4))
    assert found_jobs(changes(six, four)) == {}


def test_rules_of_queues_beside_their_amounts_are_compared() -> None:
    text = BASE["cluster-specs/demo/queues.yaml"].replace("spec: {", "spec: {weight: 3, priority: 2, ")
    comparison = changes(BASE, {**BASE, "cluster-specs/demo/queues.yaml": text})
    assert comparison.resources == ("Queue a: weight 1 -> 3", "Queue a: priority 0 -> 2")
    base = {**BASE, "cluster-specs/demo/top.yaml": queue("top", capability=32, deserved=32)}
    child = {**base, "cluster-specs/demo/queues.yaml": text.replace("weight: 3", "parent: top")}
    assert "Queue a: parent top -> unset" in changes(child, base).resources


def test_a_changed_document_with_generate_name_is_another_job_and_no_finding() -> None:
    files = {path: BASE[path] for path in BASE if not path.startswith("jobs/")}
    base = {**files, "jobs/g.yaml": job("g", 1).replace('"name": "g"', '"generateName": "g-"')}
    head = {**base, "jobs/g.yaml": base["jobs/g.yaml"].replace('"image": "x"', '"image": "y"')}
    found = changes(base, head)
    assert sorted(found_jobs(found).values()) == ["removed", "starts"]
    assert not found.findings


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
    assert comparison.scheduler[0] == "action reclaim added: it takes back what other queues borrowed"
    assert comparison.scheduler[-1] == "plugin gang: enableReclaimable not set -> false"
    assert {each.name for each in comparison.queues} == {"a", "b"}


def test_an_evicted_job_that_could_never_start_again_is_said_to_be_lost() -> None:
    queues = queue("a", capability=8, deserved=8) + "---\n" + queue("b", deserved=24)
    base = {**BASE, "cluster-specs/demo/scheduler.yaml": RECLAIMING}
    head = {"cluster-specs/demo/queues.yaml": queues, "jobs/b.yaml": job("b", 3, queue="b")}
    comparison = changes(base, {**base, **head})
    lost = [each for each in comparison.jobs if each.effect == "evicted"]
    assert lost
    assert {each.never for each in lost if each.name != "ns/three"} == {True}
    assert "it makes room for ns/b; it could never start again: queue a may never hold more than 8" in lost[0].why
    assert comparison.fails("never-starts")
    assert "<details open><summary>Job" in comparison_markdown([comparison], "x", "y")


def test_plugins_flags_and_arguments_are_compared() -> None:
    head = SCHEDULER.replace("{name: gang}", "{name: gang, enablePreemptable: false}").replace(
        "{name: nodeorder}", "{name: binpack, arguments: {binpack.weight: 10}}"
    )
    comparison = changes(BASE, {**BASE, "cluster-specs/demo/scheduler.yaml": head})
    assert [line.partition(":")[0] for line in comparison.scheduler] == [
        "plugin binpack added in tier 2 (its effect on the plan",
        "plugin gang",
        "plugin nodeorder removed (its effect on the plan",
    ]
    assert not comparison.jobs


def test_with_an_error_nothing_takes_effect_and_nothing_else_is_said() -> None:
    broken = {**BASE, "jobs/one.yaml": job("one", 1).replace('"minAvailable": 1', '"minAvailable": "two"')}
    comparison = changes(BASE, broken)
    assert [each.severity for each in comparison.errors] == ["error"]
    assert (comparison.jobs, comparison.queues, comparison.findings) == ((), (), NO_CHANGES)
    assert comparison.fails("error")
    text = comparison_text([comparison], "x", "y")
    assert text.startswith(
        "x -> y\n\nCluster demo: 1 error: the reconciler rejects this commit, nothing of it takes effect\n\n  Errors\n"
    )
    assert "Fix: write a whole number" in text or "integer" in text
    still = changes(broken, {**broken, "jobs/two.yaml": job("two", 1)})
    assert summary(still).endswith("takes effect (1 error in the base)")
    back = changes(broken, BASE)
    assert (len(back.findings.mended), back.base_errors, back.fails("error")) == (1, 1, False)
    assert "the base was rejected" in comparison_text([back], "x", "y")


def test_what_the_api_server_refuses_to_change_is_an_error() -> None:
    urgent = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 1000\n"
    base = {**BASE, "cluster-specs/demo/p.yaml": urgent}
    (error,) = changes(base, {**base, "cluster-specs/demo/p.yaml": urgent.replace("1000", "5")}).errors
    assert (error.code, error.message) == (
        "GP505",
        "the API server refuses to change value of a live PriorityClass (1000 -> 5)",
    )
    allowed = urgent.replace("{name: urgent}", '{name: urgent, annotations: {gangplan.dev/replace: "true"}}')
    head = {**base, "cluster-specs/demo/p.yaml": allowed.replace("1000", "5")}
    assert changes(base, head).resources == ("PriorityClass urgent: value 1000 -> 5",)


def test_a_finding_of_which_only_a_number_differs_is_one() -> None:
    big = {**BASE, "jobs/n.yaml": job("new", 9)}
    found = changes(big, {**big, "cluster-specs/demo/nodes.yaml": POOL.replace("count: 4", "count: 5")}).findings
    ((before, after),) = found.changed
    assert (found.new, found.mended, before.code) == ((), (), after.code)
    assert "all its nodes hold 4" in before.message
    assert "all its nodes hold 5" in after.message


def test_the_finding_on_kinds_without_permissions_is_new_where_the_kinds_are() -> None:
    """It is shown at the first object of them: another one before it changes nothing."""
    dashboard = "apiVersion: grafana.integreatly.org/v1beta1\nkind: GrafanaDashboard\nmetadata: {name: %s}\n"
    base = {**BASE, "jobs/m.yaml": dashboard % "m"}
    assert not changes(base, {**base, "jobs/b.yaml": dashboard % "b"}).findings
    other = {**base, "jobs/b.yaml": (dashboard % "b").replace("GrafanaDashboard", "GrafanaFolder")}
    ((before, after),) = changes(base, other).findings.changed
    assert (before.code, after.code) == ("GP357", "GP357")


def test_equal_findings_are_folded_and_come_with_their_fix() -> None:
    tainted = POOL.replace("spec: {", "spec: {taints: [{key: maintenance, effect: NoSchedule}], ")
    comparison = changes(BASE, {**BASE, "cluster-specs/demo/nodes.yaml": tainted})
    assert len(comparison.findings.new) > 1
    text = comparison_text([comparison], "x", "y")
    assert "1 new finding" in text
    assert text.count("GP394") == 1
    assert "Fix: tolerate maintenance" in text


def test_what_runs_and_could_not_start_again_is_said_with_its_reason() -> None:
    """Of a queue the amount that it holds beyond its limit; of what can never start again that too, and open."""
    narrow = changes(BASE, {**BASE, "cluster-specs/demo/queues.yaml": queue("a", capability=24, deserved=24)})
    assert [(each.name, each.never) for each in narrow.lost_restarts] == [("ns/two", False)]
    text = comparison_text([narrow], "x", "y")
    assert "a: deserved 32 -> 24 GPUs, capability 32 -> 24 GPUs, holds 32 GPUs, above its new capability 24" in text
    assert "ns/two in queue a: queue a may hold 24 nvidia.com/gpu and has 0 left; the job asks for 16 (2 pods" in text
    tainted = POOL.replace("spec: {", "spec: {taints: [{key: maintenance, effect: NoSchedule}], ")
    comparison = changes(BASE, {**BASE, "cluster-specs/demo/nodes.yaml": tainted})
    assert [(each.name, each.never) for each in comparison.lost_restarts] == [("ns/one", True), ("ns/two", True)]
    assert "4 nodes: taint maintenance:NoSchedule added: n-0 to 3" in comparison.resources
    markdown = comparison_markdown([comparison], "x", "y")
    opened = [line for line in markdown.split("\n") if line.startswith("<details open>")]
    assert [line.split("<summary>")[1].split(" (")[0] for line in opened] == [
        "Job that can never start",
        "Keeps running, but could not start again",
    ]
    assert markdown.index("<details open>") < markdown.index("<details><summary>")


def test_a_job_that_moves_starts_again() -> None:
    narrow = {**BASE, "cluster-specs/demo/queues.yaml": queue("a", capability=24, deserved=24)}
    after, empty = changes(BASE, narrow).after, (revision(BASE).compile(None), revision(narrow).compile(None))
    assert after is not None
    (lost,) = lost_restarts(after, empty, [])
    assert lost.name == "ns/two"
    assert not list(lost_restarts(after, empty, [replace(lost, effect="moves")]))


@pytest.mark.parametrize(
    ("level", "fails"), [("no-plan", False), ("error", False), ("never-starts", False), ("longer-waits", True)]
)
def test_a_level_fails_by_what_it_names_and_worse(level: Any, fails: bool) -> None:
    narrow = changes(BASE, {**BASE, "cluster-specs/demo/queues.yaml": queue("a", capability=24, deserved=24)})
    assert narrow.fails(level) == fails
    never = changes(BASE, {**BASE, "jobs/n.yaml": job("new", 1, gpus=9)})
    assert never.fails(level) == (level in ("never-starts", "longer-waits"))
    waiting = changes(BASE, {**BASE, "jobs/z.yaml": job("z", 4)})
    assert not waiting.fails(level)  # a new job waits for nothing that it had


def test_the_order_of_plugins_in_a_tier_is_a_change() -> None:
    head = SCHEDULER.replace("{name: priority}, {name: gang}", "{name: gang}, {name: priority}")
    assert changes(BASE, {**BASE, "cluster-specs/demo/scheduler.yaml": head}).scheduler == (
        "tier 1 calls its plugins in another order: gang, priority, conformance (before: priority, gang, conformance); "
        "the first with an answer decides",
    )


def test_tiers_and_order_mean_nothing_to_plugins_that_filter_and_score() -> None:
    turned = SCHEDULER.replace(
        "{name: predicates}, {name: capacity}, {name: nodeorder}",
        "{name: nodeorder}, {name: capacity}, {name: predicates}",
    )
    assert changes(BASE, {**BASE, "cluster-specs/demo/scheduler.yaml": turned}).scheduler == ()
    moved = SCHEDULER.replace(
        ", {name: capacity}, {name: nodeorder}]", "]\n  - plugins: [{name: capacity}, {name: nodeorder}]"
    )
    assert changes(BASE, {**BASE, "cluster-specs/demo/scheduler.yaml": moved}).scheduler == (
        "plugin capacity moves from tier 2 to tier 3: the first tier with an answer decides",
        "plugin nodeorder moves from tier 2 to tier 3: it filters and scores nodes alike in each",
    )


def test_two_resources_that_are_called_alike_are_named_in_full() -> None:
    other = POOL.replace("name: n", "name: m").replace("nvidia.com/gpu", "metax-tech.com/gpu")
    base = {**BASE, "cluster-specs/demo/more.yaml": other}
    head = {name: text.replace("gpu: 8", "gpu: 4").replace("gpu: 32", "gpu: 16") for name, text in base.items()}
    text = comparison_text([changes(base, {**head, "jobs/one.yaml": base["jobs/one.yaml"]})], "x", "y")
    assert "in all 32 -> 16 metax-tech.com/gpu" in text
    assert "in all 32 -> 16 nvidia.com/gpu" in text
    assert " GPUs" not in text.split("Nodes and policy")[1].split("Queues")[0]


def test_a_queue_that_goes_stays_until_the_jobs_in_it_end() -> None:
    both = {**BASE, "cluster-specs/demo/b.yaml": queue("b", deserved=8), "jobs/n.yaml": job("new", 1, queue="b")}
    base = without(both, "jobs/two.yaml")
    head = {**without(base, "cluster-specs/demo/b.yaml"), "jobs/n.yaml": job("new", 1)}
    text = comparison_text([changes(base, head)], "x", "y")
    assert "b is gone: deserved 8 GPUs and held 8 GPUs" in text or "b is gone: " in text
    assert "it is deleted once 1 job in it ended: ns/new" in text


def test_a_job_under_another_name_is_removed_and_starts() -> None:
    renamed = {**without(BASE, "jobs/two.yaml"), "jobs/other.yaml": job("other", 2)}
    comparison = changes(BASE, renamed)
    assert found_jobs(comparison).items() >= {"ns/two": "removed", "ns/other": "starts"}.items()
    assert comparison.jobs[0].why == "it is not in the new revision; ns/other has the same specification"


def test_a_job_that_is_kept_or_suspended_runs_on() -> None:
    kept = job("two", 2).replace('"annotations": {', '"annotations": {"gangplan.dev/prune": "disabled", ')
    base = {**BASE, "jobs/two.yaml": kept}
    (left,) = (each for each in changes(base, without(base, "jobs/two.yaml")).jobs if each.name == "ns/two")
    assert (left.effect, left.before == left.after) == ("edited", True)
    assert left.why.startswith("it leaves the repository and stays in the cluster")
    suspended = job("two", 2).replace('"annotations": {', '"annotations": {"gangplan.dev/suspend": "true", ')
    comparison = changes(BASE, {**BASE, "jobs/two.yaml": suspended})
    (held,) = (each for each in comparison.jobs if each.name == "ns/two")
    assert (held.effect, held.before == held.after) == ("edited", True)
    assert comparison.queues == (), "what its pods hold stays the queue's"


def test_objects_that_are_in_no_plan_are_compared() -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: ns}\ndata: {lr: low}\n"
    same, old, new = (config.replace("NAME", name) for name in ("same", "old", "new"))
    base = {**BASE, "jobs/c.yaml": f"{same}---\n{old}"}
    head = {**BASE, "jobs/c.yaml": f"{same}---\n{new}".replace("low", "high", 1)}
    assert changes(base, head).objects == (
        "ConfigMap ns/new is new",
        "ConfigMap ns/old is deleted",
        "ConfigMap ns/same: data.lr changed",
    )


def test_sarif_has_what_a_reviewer_looks_at() -> None:
    narrow = changes(BASE, {**BASE, "cluster-specs/demo/queues.yaml": queue("a", capability=24, deserved=24)})
    log = json.loads(comparison_sarif([narrow], "x", "y"))
    (result,) = (each for each in log["runs"][0]["results"] if each["ruleId"] != "GP357")
    assert (result["ruleId"], result["baselineState"], result["level"]) == ("GW101", "new", "warning")
    assert result["message"]["text"].startswith("ns/two keeps running, but could not start again: queue a may hold 24")


def test_labels_and_taints_that_differ_are_named() -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n-9, labels: {gpu: a100, zone: east}}\n"
    status = "status: {allocatable: {cpu: 8}}\n"
    before = {**BASE, "cluster-specs/demo/node.yaml": node + status}
    tainted = "spec: {taints: [{key: dedicated, effect: NoSchedule}]}\n"
    after = {**before, "cluster-specs/demo/node.yaml": node.replace("a100", "h100") + tainted + status}
    (text,) = changes(before, after).resources
    assert text == "1 node: label gpu a100 -> h100, taint dedicated:NoSchedule added: n-9"
    closed = POOL.replace("spec: {", 'spec: {maintenance: [{start: "2026-11-28T00:00:00Z", duration: 4h}], ')
    text, hint = changes(BASE, {**BASE, "cluster-specs/demo/nodes.yaml": closed}).resources
    assert text == "4 nodes: maintenance from 2026-11-28T00:00:00Z for 4h added: n-0 to 3"
    assert hint == "maintenance closes no node here: only a state has a time (--state)"


def test_a_changed_default_names_the_jobs_of_another_priority() -> None:
    usual = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: usual}\nvalue: 1000\n"
    base = {**BASE, "cluster-specs/demo/p.yaml": usual + "globalDefault: true\n", "jobs/two.yaml": job("two", 1)}
    found = changes(base, {**base, "cluster-specs/demo/p.yaml": usual}).resources
    assert found[0] == "PriorityClass usual: global default true -> false"
    assert found[1] == "3 jobs: priority 1000 -> 0: ns/one, ns/three, ns/two"


def test_nodes_domains_priorities_and_policy_are_compared() -> None:
    urgent = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 1000\n"
    cluster = "apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\n"
    before = {**BASE, "cluster-specs/demo/more.yaml": f"{urgent}---\n{cluster}"}
    later = urgent.replace("1000", "500").replace("{name: urgent}", "{name: late}")
    more = f"{later}---\n{cluster}spec: {{order: priorities-first}}\n"
    pool = POOL.replace("count: 4", "count: 6, topology: [{name: rack, size: 2}]").replace("cpu: 32", "cpu: 48")
    after = {**before, "cluster-specs/demo/nodes.yaml": pool, "cluster-specs/demo/more.yaml": more}
    comparison = changes(before, after)
    assert comparison.resources == (
        "2 nodes new: n-4, n-5",
        "4 nodes: cpu 32 -> 48: n-0 to 3",
        "in all 128 -> 288 cpu",
        "in all 256Gi -> 384Gi memory",
        "in all 32 -> 48 GPUs",
        "3 network domains new: n-rack-0 to 2",
        "PriorityClass late is new: value 500",
        "PriorityClass urgent is gone: value 1000",
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
    many = Comparison("demo", comparison.jobs * count)
    text = comparison_markdown([many], "main", "topic")
    assert len(text) <= MARKDOWN_LIMIT
    assert ("more: `gangplan diff`" in text) == (count > 1)
    assert f"{count} job" in text


def test_names_of_strangers_do_not_become_markup() -> None:
    comparison = Comparison("demo", scheduler=("plugin @team <b>x</b> `y`",))
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
