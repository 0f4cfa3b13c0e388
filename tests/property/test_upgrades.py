"""Upgrades of random repositories from Volcano 1.15 to 1.16, and back: what a comparison says of the release alone is
what plans of both sides show, no more and no less."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from compiler.comparison.compare import Comparison, compare
from compiler.comparison.render import comparison_text
from compiler.diagnostics.diagnostic import Diagnostic
from compiler.outcome import Outcome
from tests.builders.declared import GPU
from tests.builders.depth import sample
from tests.oracle.richer import richer_repository
from tests.property.test_revisions import Judge, World, random_world, revision_of, template

REPOSITORIES = 50
ROOT = Path(__file__).parents[2]
CLUSTER, SCHEDULER = "cluster-specs/c/cluster.yaml", "cluster-specs/c/scheduler.yaml"
SCHEDULING = "scheduling.volcano.sh/v1beta1"


def volcano_object(
    kind: str, name: str, spec: dict[str, Any], api: str = SCHEDULING, **metadata: Any
) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def oracle_world(seed: int) -> World:
    """A repository of the oracle: queues below others, network domains, all plugins between queues."""
    world: World = {}
    for text in richer_repository(seed).values():
        for data in yaml.load_all(text, yaml.CSafeLoader):
            folder = "jobs" if data["kind"] == "Job" else "cluster-specs/c"
            world[f"{folder}/{data['kind']}-{data['metadata']['name']}.yaml"] = data
    names = {"Cluster": CLUSTER, "SchedulerConfiguration": SCHEDULER}
    return {names.get(data["kind"], file): data for file, data in world.items()}


def add_preempt(chooser: Random, world: World) -> None:
    world[SCHEDULER]["spec"]["actions"].append("preempt")


def drop_enqueue(chooser: Random, world: World) -> None:
    world[SCHEDULER]["spec"]["actions"].remove("enqueue")


def add_plugin(name: str, **arguments: str) -> Callable[[Random, World], None]:
    def add(chooser: Random, world: World) -> None:
        said = {"arguments": arguments} if arguments else {}
        world[SCHEDULER]["spec"]["tiers"][0]["plugins"].insert(1, {"name": name, **said})

    return add


def add_flow(chooser: Random, world: World) -> None:
    task = {"name": "w", "replicas": chooser.choice((1, 2)), "template": template(2, {})}
    spec = {"schedulerName": "volcano", "queue": "b", "minAvailable": 1, "tasks": [task]}
    flow = "flow.volcano.sh/v1alpha1"
    world["jobs/step.yaml"] = volcano_object("JobTemplate", "step", spec, flow, namespace="t")
    world["jobs/flow.yaml"] = volcano_object("JobFlow", "flow", {"flows": [{"name": "step"}]}, flow, namespace="t")


def allow_namespaces(chooser: Random, world: World) -> None:
    world["cluster-specs/c/b.yaml"]["spec"]["allowedNamespaces"] = ["t"]
    world[CLUSTER]["spec"]["namespaceQueues"] = chooser.random() < 0.7


def add_namespace_queue(chooser: Random, world: World) -> None:
    world[CLUSTER]["spec"]["namespaceQueues"] = True
    spec = {"allowedNamespaces": ["t"], "capability": {GPU: chooser.choice((8, 16))}}
    world["cluster-specs/c/shared.yaml"] = volcano_object("Queue", "shared", spec)
    own = {"parent": "cluster/shared", "capability": {GPU: chooser.choice((4, 8, 32))}}
    world["cluster-specs/c/own.yaml"] = volcano_object("NamespaceQueue", "own", own, namespace="t")
    task = {"name": "w", "replicas": 1, "template": template(4, {})}
    job = {"schedulerName": "volcano", "queue": "namespace/own", "minAvailable": 1, "tasks": [task]}
    world["jobs/own.yaml"] = volcano_object("Job", "own", job, "batch.volcano.sh/v1alpha1", namespace="t")


def limit_node_groups(chooser: Random, world: World) -> None:
    limits = json.dumps({"a100": {GPU: str(chooser.choice((4, 8)))}})
    world["cluster-specs/c/b.yaml"]["metadata"]["annotations"] = {"volcano.sh/nodegroup-resource-limits": limits}


def move_namespaces(chooser: Random, world: World) -> None:
    for name, data in world.items():
        if name.startswith("jobs/j") and chooser.random() < 0.5:
            data["metadata"]["namespace"] = "u"


OF_PLUGINS: tuple[Callable[[Random, World], None], ...] = (
    *(add_preempt, add_plugin("usage"), add_plugin("numa-aware")),
    add_plugin("fairshare", **{"fairshare.persistState": "true"}),
)
ADDITIONS = (
    *(*OF_PLUGINS, drop_enqueue, add_flow, move_namespaces),
    *(allow_namespaces, add_namespace_queue, limit_node_groups),
)
NEWER = frozenset({"allowedNamespaces", "NamespaceQueue", "nodegroup-resource-limits", "fairshare"})
"""What only 1.16 has; with it in a repository 1.15 is an error."""


def upgraded_world(seed: int) -> tuple[World, World]:
    """A repository for 1.15, and the same for 1.16; each third is one of the oracle."""
    chooser = Random(seed)  # noqa: S311  - not a secret
    is_of_oracle = seed % 3 == 2
    world = oracle_world(seed) if is_of_oracle else random_world(chooser)
    empty = volcano_object("Cluster", "c", {}, "gangplan.dev/v1alpha1")
    world.setdefault(CLUSTER, empty)["spec"]["volcano"] = chooser.choice(("1.15", "1.15.1", "1.15.2"))
    for add in chooser.sample(OF_PLUGINS if is_of_oracle else ADDITIONS, chooser.choice((0, 1, 1, 2, 3))):
        add(chooser, world)
    newer = copy.deepcopy(world)
    newer[CLUSTER]["spec"]["volcano"] = chooser.choice(("1.16", "1.16.0"))
    return world, newer


def expected_sentences(world: World, older: str) -> set[str]:
    """The beginning of each sentence that is to be said of the release, by what the repository holds. older: the
    release before; 1.15.2 has some of the changes."""
    spec = world[SCHEDULER]["spec"]
    plugins = {plugin["name"] for tier in spec["tiers"] for plugin in tier["plugins"]}
    kinds = {data["kind"] for data in world.values()}
    is_unpatched = older != "1.15.2"
    volcano_jobs = [data for data in world.values() if data["apiVersion"].startswith("batch.volcano.sh")]
    holds = {
        "1.16: enqueue books": "enqueue" in spec["actions"],
        "1.16: preempt asks": "preempt" in spec["actions"],
        "1.15.2: reclaim asks": is_unpatched and "reclaim" in spec["actions"],
        "1.16: with the gate": "NamespaceQueue" in kinds,
        "1.16: usage estimates": "usage" in plugins,
        "1.16: a JobFlow": "JobFlow" in kinds,
        "1.16: restarts of single pods": bool(volcano_jobs) or "Job" in kinds,
        "1.16: predicates scores": "predicates" in plugins,
        "1.16: predicates asks for the capacity": "predicates" in plugins,
        "1.15.2: gang keeps": is_unpatched and "gang" in plugins,
        "1.16: numa-aware reads": "numa-aware" in plugins,
        "1.16: pod templates": True,
    }
    return {word for word, is_said in holds.items() if is_said}


def mistakes(world: World, said: Comparison, base: Outcome, head: Outcome, word: str, older: str) -> Iterator[str]:
    yield from Judge(base, head, said).mistakes()
    if said.errors:
        return
    sentences = [text for text in said.scheduler if text.startswith(f"{word} Volcano 1.")]
    expected = expected_sentences(world, older)
    for text in sentences:
        if not any(text.startswith(f"{word} Volcano {begin}") for begin in expected):
            yield f"said of no part of this repository: {text}"
    if len(sentences) != len(expected):
        yield f"{len(expected)} sentences of the release expected: {sentences}"
    if not any("volcano" in text and "1.16" in text for text in said.resources) and not base.error_count:
        yield f"the release is not among the changes of the cluster: {said.resources}"
    yield from _false_findings(said, base, head)
    decided = [{each.key: each.action for each in found.decisions} for found in (base, head)]
    if decided[0] == decided[1] and not base.error_count and (said.jobs or said.lost_restarts or said.queues):
        yield "jobs or queues are said to change, and both plans are the same"


def _false_findings(said: Comparison, base: Outcome, head: Outcome) -> Iterator[str]:
    """What is found of one side and not of the other. GP5xx rest on what runs, which is nothing on either side."""
    before, after = (set(map(_finding, found.diagnostics)) for found in (base, head))
    of_files = (each for each in said.findings.new if not each.code.startswith("GP5"))
    for diagnostic in of_files:
        if _finding(diagnostic) in before or _finding(diagnostic) not in after:
            yield f"not new: {diagnostic.code} {diagnostic.message}"
    for diagnostic in said.findings.mended:
        if _finding(diagnostic) in after or _finding(diagnostic) not in before:
            yield f"not gone: {diagnostic.code} {diagnostic.message}"
    told = {each.code for each in (*said.findings.new, *said.findings.mended)}
    for code in {code for code, _, _ in before ^ after} - told:
        if code.startswith("GP4"):
            yield f"{code} came or went without a word"


def _finding(diagnostic: Diagnostic) -> tuple[str, str, str]:
    return diagnostic.code, diagnostic.object, diagnostic.message


@pytest.mark.parametrize("seed", range(sample(REPOSITORIES)))
def test_what_is_said_of_an_upgrade_is_what_plans_of_both_sides_show(seed: int) -> None:
    assert_judged_the_same(*upgraded_world(seed))


def test_an_upgrade_of_the_example_is_judged_as_plans_of_both_sides_show() -> None:
    older = example_world()
    newer = copy.deepcopy(older)
    newer[CLUSTER]["spec"]["volcano"] = "1.16"
    assert_judged_the_same(older, newer)


def example_world() -> World:
    """The repository's own example on 1.15.1, an object a file. The plan is the same on a loaded machine."""
    world: World = {}
    for file in sorted(file for folder in ("cluster-specs", "jobs") for file in (ROOT / folder).rglob("*.yaml")):
        folder = "cluster-specs/c" if "cluster-specs" in file.parts else "jobs"
        for data in filter(None, yaml.load_all(file.read_text("utf-8"), yaml.CSafeLoader)):
            world[f"{folder}/{file.stem}-{len(world)}.yaml"] = data
    names = {"Cluster": CLUSTER, "SchedulerConfiguration": SCHEDULER}
    world = {names.get(data["kind"], file): data for file, data in world.items()}
    world[CLUSTER].setdefault("spec", {}).update(volcano="1.15.1", timeLimit=3600)
    return world


def assert_judged_the_same(older: World, newer: World) -> None:
    base, head = revision_of(older), revision_of(newer)
    said, release = compare(base, head, None), older[CLUSTER]["spec"]["volcano"]
    assert list(mistakes(newer, said, base.compile(None), head.compile(None), "from", release)) == []
    text = comparison_text([said], "x", "y")
    assert "1.16" in text
    has_newer = any(word in json.dumps(older) for word in NEWER)
    assert bool(said.base_errors) == has_newer, "what 1.15 does not have is an error there"
    back = compare(head, base, None)
    assert bool(back.errors) == has_newer
    if not has_newer:
        assert list(mistakes(older, back, head.compile(None), base.compile(None), "until", release)) == []
