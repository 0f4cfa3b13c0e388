"""JobFlows: each step is the Job that Volcano makes of a JobTemplate once those before it are completed."""

from __future__ import annotations

import json

import pytest

from compiler.emit.waves import manifests
from compiler.outcome import Outcome
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.gang_spec import JobKey
from compiler.views.data import gang_entry
from reconciler.planning.snapshot import Snapshot
from tests.builders import declared, repositories
from tests.builders.cluster_objects import node
from tests.builders.declared import Object, pod_spec

FLOW = "flow.volcano.sh/v1alpha1"
JOB = "batch.volcano.sh/v1alpha1"


def item(api_version: str, kind: str, name: str, spec: Object, **more: object) -> Object:
    metadata = {"name": name, "namespace": "ml"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, **more}


def template(name: str) -> Object:
    pod = pod_spec(requests={"cpu": "2"}, restartPolicy="Never")
    return {**declared.job(name, 2, pod, namespace="ml", minAvailable=2), "apiVersion": FLOW, "kind": "JobTemplate"}


def job(name: str, phase: str) -> Object:
    return item(JOB, "Job", name, {"tasks": []}, status={"state": {"phase": phase}})


NODE = node("n1", {"cpu": "8"})
NIGHTLY = item(FLOW, "JobFlow", "nightly", {"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]})


def compiled(
    *live: Object, finished: tuple[JobKey, ...] = (), binding: str = "gated", more: tuple[Object, ...] = ()
) -> Outcome:
    objects = declared.cluster(binding=binding), declared.queue(), NODE, NIGHTLY, *map(template, ("a", "b", "unused"))
    return repositories.compiled(*objects, *more, live=[NODE, *live], finished=finished)


def decisions(outcome: Outcome) -> list[tuple[str, str]]:
    return [(decision.name, decision.action) for decision in outcome.decisions]


@pytest.mark.parametrize("phase", ["", "Running", "Failed"])
def test_a_step_waits_for_those_before_it(phase: str) -> None:
    outcome = compiled(*([job("nightly-a", phase)] if phase else []))
    first, second = outcome.decisions
    assert (first.name, first.action) == ("ml/nightly-a", "done" if phase == "Failed" else "start")
    assert (second.name, second.action) == ("ml/nightly-b", "wait")
    assert [reason.message for reason in second.reasons] == ["it is made when nightly-a is completed"]


def test_a_step_starts_once_those_before_it_are_completed() -> None:
    assert decisions(compiled(job("nightly-a", "Completed"))) == [("ml/nightly-a", "done"), ("ml/nightly-b", "start")]


def test_a_flow_that_is_over_makes_nothing_although_its_jobs_are_deleted() -> None:
    found = decisions(compiled(finished=(("ml", "nightly", "JobFlow"),)))
    assert found == [("ml/nightly-a", "done"), ("ml/nightly-b", "done")]


@pytest.mark.parametrize("binding", ["gated", "static"])
def test_the_templates_of_steps_carry_the_gate_and_no_job_is_emitted(binding: str) -> None:
    found = {
        (manifest.object["kind"], manifest.object["metadata"]["name"]): manifest.object
        for manifest in manifests(compiled(binding=binding))
        if manifest.wave >= 4
    }
    assert sorted(found) == [("JobFlow", "nightly"), *(("JobTemplate", name) for name in ("a", "b", "unused"))]
    specs = {
        name: one["spec"]["tasks"][0]["template"]["spec"] for (kind, name), one in found.items() if kind != "JobFlow"
    }
    gated = {name for name, spec in specs.items() if "schedulingGates" in spec}
    assert gated == ({"a", "b"} if binding == "gated" else set())


def test_a_step_tells_the_roles_that_come_late_since_no_manifest_does() -> None:
    late = template("late")
    tasks = late["spec"]["tasks"]
    tasks.append({**tasks[0], "name": "after", "dependsOn": {"name": ["w"]}})
    flow = item(FLOW, "JobFlow", "daily", {"flows": [{"name": "late"}]})
    outcome = compiled(more=(late, flow))
    entry = next(gang_entry(decided) for decided in outcome.decisions if decided.name == "ml/daily-late")
    gangs = Snapshot("c0ffee", True, plan={"gangs": [entry]}).gangs
    assert [gang.dependent_roles for gang in gangs.values()] == [{"after"}]


def test_a_flow_without_its_templates_is_said() -> None:
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"}}
    text = json.dumps({**flow, "spec": {"flows": [{"name": "a"}]}}).encode()
    said = {each.code: each for each in read_specs(Repository({"jobs/f.yaml": text})).diagnostics}
    assert said["GP220"].message == "JobFlow f is for Volcano and is not planned"
    assert said["GP220"].help == "add the JobTemplates that it names: a"
    assert "GP364" not in said
