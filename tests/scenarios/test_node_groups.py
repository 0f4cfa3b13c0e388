"""Node groups of the plugin nodegroup, from documents to the plan: who may go where, why not, and what mends it."""

from __future__ import annotations

import pytest

from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views import text
from tests.builders.declared import job, yaml_of

POOL = """\
---
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {{name: {name}}}
spec: {{count: 2, labels: {{{labels}}}, capacity: {{cpu: 64, nvidia.com/gpu: 8}}}}
"""
QUEUE = """\
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: {name}}}
spec: {{{spec}}}
"""
AFFINITY = "affinity: {nodeGroupAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [GROUPS]}}"


def compiled(
    queues: dict[str, str],
    *jobs: tuple[str, str, int],
    plugin: str = "name: nodegroup",
    groups: tuple[str, ...] = ("a100", "h100"),
    plain: str = "",
) -> Outcome:
    """Two nodes each of the groups and of none. jobs: (name, queue, nodes asked for). plain: label of the latter."""
    cluster = [
        "apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: test}\n",
        "---\napiVersion: gangplan.dev/v1alpha1\nkind: SchedulerConfiguration\nmetadata: {name: conf}\n",
        f"spec: {{actions: [allocate], tiers: [{{plugins: [{{name: gang}}, {{{plugin}}}]}}]}}\n",
        *(POOL.format(name=g, labels=f"volcano.sh/nodegroup-name: {g}") for g in groups),
        POOL.format(name="plain", labels=plain),
        *(QUEUE.format(name=name, spec=spec) for name, spec in queues.items()),
    ]
    made = {name: job(name, pods, queue=queue, minAvailable=pods) for name, queue, pods in jobs}
    files = {f"jobs/{name}.yaml": yaml_of(each) for name, each in made.items()}
    files["cluster-specs/test/all.yaml"] = "".join(cluster)
    outcome = compile_repository(Repository({path: content.encode() for path, content in files.items()}))
    assert outcome.ok, outcome.diagnostics
    return outcome


def pools(outcome: Outcome) -> dict[str, set[str]]:
    """Job -> the pools of its nodes."""
    assert outcome.plan is not None
    assert outcome.problem is not None
    made = zip(outcome.problem.gangs, outcome.plan.decisions, strict=True)
    names = {gang.name: decision.placements for gang, decision in made}
    return {
        name.removeprefix("team/"): {outcome.problem.nodes[p.node].name.rpartition("-")[0] for p in placed}
        for name, placed in names.items()
    }


def test_jobs_go_where_their_queue_may_go_and_only_with_the_plugin() -> None:
    a100 = AFFINITY.replace("GROUPS", "a100")
    queues = {"a": a100, "top": a100, "below": "parent: top", "bare": ""}
    jobs = ("fits", "a", 2), ("child", "below", 1), ("lost", "bare", 1)
    assert pools(compiled(queues, *jobs)) == {"fits": {"a100"}, "child": set(), "lost": set()}
    lax = "name: nodegroup, enableHierarchy: true, arguments: {strict: false}"
    assert pools(compiled(queues, *jobs[1:], plugin=lax)) == {"child": {"a100"}, "lost": {"plain"}}
    without = pools(compiled(queues, *jobs, plugin="name: binpack"))
    assert all(without.values())


def test_a_job_too_large_for_its_groups_is_told_so_at_the_affinity_that_counts_and_the_repair_works() -> None:
    affinity = {groups: AFFINITY.replace("GROUPS", groups) for groups in ("a100", "a100, h100")}
    plugin, job = "name: nodegroup, enableHierarchy: true", ("wide", "nlp", 4)
    page = text.plan_text(compiled({"science": affinity["a100"], "nlp": "parent: science"}, job, plugin=plugin))
    assert "GW123  queue nlp may not use node group h100, and has too little room without, even empty" in page
    assert "see cluster-specs/test/all.yaml:28 affinity" in page
    assert "GR123  would help: let queue nlp use node group h100 as well: required nodeGroupAffinity of" in page
    repaired = compiled({"science": affinity["a100, h100"], "nlp": "parent: science"}, job, plugin=plugin)
    assert pools(repaired) == {"wide": {"a100", "h100"}}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(**groups: str) -> str:
    """with_: groups of nodeGroupAffinity; without: of nodeGroupAntiAffinity."""
    keys = {"with_": "nodeGroupAffinity", "without": "nodeGroupAntiAffinity"}
    return f"affinity: {{{', '.join(f'{keys[k]}: {{{REQUIRED}: [{names}]}}' for k, names in groups.items())}}}"


@pytest.mark.parametrize(
    ("written", "said", "typed"),
    [
        (
            affinity(with_="a100", without="h100"),
            "required nodeGroupAffinity [a100, h100] and required nodeGroupAntiAffinity []",
            affinity(with_="a100, h100", without=""),
        ),
        (
            affinity(with_="a100, h100", without="h100"),
            "required nodeGroupAntiAffinity []",
            affinity(with_="a100, h100", without=""),
        ),
        (
            affinity(without="h100"),
            "required nodeGroupAffinity [a100, h100] and required nodeGroupAntiAffinity []",
            affinity(with_="a100, h100", without=""),
        ),
    ],
)
@pytest.mark.parametrize("inherited", [False, True])
def test_the_repair_of_a_closed_group_says_every_edit_of_the_affinity_and_they_suffice(
    written: str, said: str, typed: str, inherited: bool
) -> None:
    """Anti-affinity alone opens no group, and excludes what the affinity names as well."""
    plugin = "name: nodegroup, enableHierarchy: true, arguments: {strict: true}"

    def made(text: str) -> Outcome:
        queues = {"science": text, "nlp": "parent: science"} if inherited else {"nlp": text}
        return compiled(queues, ("wide", "nlp", 4), plugin=plugin)

    (decision,) = made(written).decisions
    (repair,) = (repair for repair in decision.repairs if repair.code == "GR123")
    whose = " of queue science" if inherited else ""
    assert repair.message.partition(": ")[2] == said.replace(" [", f"{whose} [")
    assert all(edit.startswith("spec.affinity.nodeGroup") for edit in repair.facts["edits"])  # type: ignore[union-attr]
    assert pools(made(typed)) == {"wide": {"a100", "h100"}}


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("groups", "arguments", "taken"),
    [
        (f"nodeGroupAffinity: {{{REQUIRED}: [h100], {PREFERRED}: [a100]}}", "", "h100"),
        (f"nodeGroupAffinity: {{{PREFERRED}: [h100, a100]}}", ", arguments: {enablePreferredOrder: true}", "h100"),
        (f"nodeGroupAffinity: {{{PREFERRED}: [h100, a100]}}", "", "a100"),
        (f"nodeGroupAffinity: {{{REQUIRED}: [h100]}}, nodeGroupAntiAffinity: {{{PREFERRED}: [a100]}}", "", "h100"),
    ],
)
@pytest.mark.parametrize("inherited", [False, True])
def test_a_job_takes_the_group_that_its_queue_prefers_and_more_where_it_needs_them(
    groups: str, arguments: str, taken: str, inherited: bool
) -> None:
    plugin = f"name: nodegroup, enableHierarchy: true{arguments}"
    written = f"affinity: {{{groups}}}"
    queues = {"science": written, "nlp": "parent: science"} if inherited else {"nlp": written}
    assert pools(compiled(queues, ("fits", "nlp", 2), plugin=plugin)) == {"fits": {taken}}
    assert pools(compiled(queues, ("wide", "nlp", 3), plugin=plugin)) == {"wide": {"a100", "h100"}}
    told = [found.severity for found in compiled(queues, plugin=plugin).diagnostics if found.code == "GP430"]
    assert told == []  # no job asks


def repairs(outcome: Outcome) -> list[str]:
    return [repair.message for decision in outcome.decisions for repair in decision.repairs if repair.code == "GR123"]


def test_nodes_without_a_group_are_opened_by_a_plugin_that_is_not_strict_where_the_queue_names_none() -> None:
    strict = compiled({"bare": ""}, ("lost", "bare", 2), groups=())
    assert repairs(strict) == ["let queue bare use node group (none) as well: strict: false of the plugin nodegroup"]
    typed = compiled({"bare": ""}, ("lost", "bare", 2), plugin="name: nodegroup, arguments: {strict: false}")
    assert pools(typed) == {"lost": {"plain"}}


def test_nodes_without_a_group_are_opened_by_a_label_where_the_queue_names_some() -> None:
    queues, job = {"nlp": affinity(with_="big")}, ("wide", "nlp", 2)
    told = repairs(compiled(queues, job, groups=()))
    assert told == ["let queue nlp use node group (none) as well: volcano.sh/nodegroup-name: big of these nodes"]
    assert pools(compiled(queues, job, groups=(), plain="volcano.sh/nodegroup-name: big")) == {"wide": {"plain"}}
