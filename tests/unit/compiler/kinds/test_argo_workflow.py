"""Argo's workflows: the widest step, and what its objects run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.gang_spec import GangSpec
from tests.unit.compiler.kinds.operator_jobs import POD, gang, read

API = "argoproj.io/v1alpha1"
Item = dict[str, Any]


def leaf(name: str, gpus: int = 0, **more: object) -> Item:
    resources = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    return {"name": name, "container": {"name": "", "image": "i", **resources}, **more}


def step(template: str, **more: object) -> Item:
    return {"name": template, "template": template, **more}


def pods(found: GangSpec) -> dict[str, int]:
    return {role.name: role.replicas for role in found.roles}


def workflow(*templates: Item, **spec: object) -> GangSpec:
    return gang(API, "Workflow", {"entrypoint": "main", "templates": list(templates), **spec})


LEAVES = (leaf("a"), leaf("b", 1), leaf("c", 4))


@pytest.mark.parametrize(
    ("main", "widest"),
    [
        ({"steps": [[step("a")], [step("b"), step("a")], [step("a"), step("a", name="x")]]}, {"a": 1, "b": 1}),
        ({"steps": [[step("b", withItems=[1, 2, 3, 4, 5])], [step("c")]]}, {"b": 5, "c": 0}),
        ({"steps": [[step("b", withSequence={"count": "3"})], [step("c")]]}, {"b": 0, "c": 1}),
        ({"steps": [[step("a", withParam="{{x}}")]]}, {"a": 1}),
        ({"dag": {"tasks": [step("a"), step("b", depends="a.Succeeded"), step("c", dependencies=["b"])]}}, None),
        ({"dag": {"tasks": [step("a"), step("b"), step("c", dependencies=["a", "b"])]}}, None),
        ({"dag": {"tasks": [step("b"), step("c")]}}, {"b": 1, "c": 1}),
        ({"dag": {"tasks": [step("a", dependencies=["b"]), step("b", dependencies=["a"])]}}, None),
        ({"steps": [[step("main"), step("a")]]}, {"a": 1}),
    ],
)
def test_room_is_kept_for_the_widest_step(main: Item, widest: dict[str, int] | None) -> None:
    found = workflow({"name": "main", **main}, *LEAVES)
    assert (found.scheduling.is_bound, found.minimum) == (False, 0)
    if widest is not None:
        assert pods(found) == widest
    elif "c" in pods(found):
        assert pods(found) == {"a": 0, "b": 0, "c": 1}


EIGHT = {"name": "main", "steps": [[step("b", withItems=[*range(8)]), step("c", withItems=[1, 2])]]}
MUTEX = {"synchronization": {"mutex": {"name": "one"}}}


@pytest.mark.parametrize(
    ("templates", "spec", "widest"),
    [
        ((EIGHT, *LEAVES), {"parallelism": 3}, {"b": 1, "c": 2}),
        (({**EIGHT, "parallelism": 1}, *LEAVES), {}, {"b": 0, "c": 1}),
        ((EIGHT, LEAVES[1], leaf("c", 4, **MUTEX)), {}, {"b": 8, "c": 1}),
        (
            ({"name": "main", "steps": [[step("x", withItems=[1, 2])]]}, {**EIGHT, "name": "x", **MUTEX}, *LEAVES),
            {},
            {"b": 8, "c": 2},
        ),
    ],
)
def test_no_more_pods_run_side_by_side_than_limits_let(templates: tuple[Item, ...], spec: Item, widest: Item) -> None:
    assert pods(workflow(*templates, **spec)) == widest


PATCHES = {
    '{"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 4}}}]}': 4,
    "containers: [{name: main, resources: {limits: {nvidia.com/gpu: '{{workflow.parameters.gpus}}'}}}]": 2,
    "containers: [{name: other, resources: {limits: {nvidia.com/gpu: 8}}}]": 1,
    "containers: [{name: main, resources: {limits: {nvidia.com/gpu: '{{inputs.parameters.gpus}}'}}}]": 1,
    "{": 1,
}
"""Patch -> the GPUs of the pod, whose template says 1."""


@pytest.mark.parametrize("patch", PATCHES)
@pytest.mark.parametrize("is_of_template", [True, False])
def test_a_patch_of_the_pod_counts(patch: str, is_of_template: bool) -> None:
    of_template, of_spec = ({"podSpecPatch": patch}, {}) if is_of_template else ({}, {"podSpecPatch": patch})
    arguments = {"parameters": [{"name": "gpus", "value": 2}]}
    found = workflow(leaf("main", 1, **of_template), arguments=arguments, **of_spec)
    assert found.roles[0].pod.requests["nvidia.com/gpu"] == PATCHES[patch]


def test_steps_of_steps_multiply_and_a_pod_has_what_the_workflow_says_of_all() -> None:
    inner = {"name": "inner", "steps": [[step("b", withItems=[1, 2])]]}
    outer = {"name": "main", "steps": [[step("inner", withItems=[1, 2, 3])]]}
    found = workflow(outer, inner, *LEAVES, nodeSelector={"pool": "x"}, schedulerName="mine")
    assert pods(found) == {"b": 6}
    (role,) = found.roles
    assert (role.pod.node_selector, role.pod.scheduler_name, found.queue) == ({"pool": "x"}, "mine", "")
    specs = read(API, "Workflow", {"entrypoint": "c", "templates": list(LEAVES)})
    assert [(each.role, each.count, each.path) for each in specs.unplanned_pods] == [("c", 1, ("spec", "templates", 2))]


def test_selectors_and_tolerations_are_those_of_the_template_else_of_the_one_around_it_else_of_the_workflow() -> None:
    gpu, cpu = {"key": "gpu", "operator": "Exists"}, {"key": "cpu", "operator": "Exists"}
    own = {**LEAVES[0], "name": "own", "nodeSelector": {"gpu": "a"}, "tolerations": [gpu]}
    around = {"name": "around", "nodeSelector": {"zone": "z"}, "steps": [[step("b")]]}
    main = {"name": "main", "steps": [[step("own"), step("around"), step("c")]]}
    found = workflow(main, own, around, *LEAVES, nodeSelector={"pool": "x"}, tolerations=[cpu])
    roles = {role.name: role for role in found.roles}
    assert {name: role.pod.node_selector for name, role in roles.items()} == {
        "own": {"gpu": "a"},
        "b": {"zone": "z"},
        "c": {"pool": "x"},
    }
    assert {name: [each.key for each in role.pod.tolerations] for name, role in roles.items()} == {
        "own": ["gpu"],
        "b": ["cpu"],
        "c": ["cpu"],
    }
    template = ("spec", "templates")
    assert roles["b"].selector_paths == ((*template, 4), (*template, 2), ("spec",))


def manifest(**spec: object) -> str:
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"generateName": "j-"}}
    return json.dumps({**job, "spec": {"tasks": [{"name": "w", "replicas": 3, "template": POD}], **spec}})


@pytest.mark.parametrize("order", [("one", "two", "c"), ("c", "two", "one")])
def test_a_template_in_steps_with_other_selectors_runs_once_with_each(order: tuple[str, ...]) -> None:
    inner = [[step("b"), step("own")]]
    one = {"name": "one", "nodeSelector": {"gpu": "h100"}, "steps": inner}
    two = {"name": "two", "nodeSelector": {"gpu": "a100"}, "dag": {"tasks": inner[0]}}
    plain = {"name": "c", "steps": inner}
    own = leaf("own", nodeSelector={"gpu": "any"})
    found = workflow({"name": "main", "steps": [[step(name) for name in order]]}, one, two, plain, own, LEAVES[1])
    roles = {role.name: (role.replicas, role.pod.node_selector) for role in found.roles}
    assert roles == {
        "one.b": (1, {"gpu": "h100"}),
        "two.b": (1, {"gpu": "a100"}),
        "b": (1, {}),
        "own": (3, {"gpu": "any"}),
    }


def test_a_template_in_one_step_with_selectors_keeps_its_name() -> None:
    one = {"name": "one", "nodeSelector": {"gpu": "h100"}, "steps": [[step("b"), step("b", name="again")]]}
    found = workflow({"name": "main", "steps": [[step("one")], [step("one")]]}, one, LEAVES[1])
    assert pods(found) == {"b": 2}


@pytest.mark.parametrize(
    ("resource", "expected", "queue"),
    [
        ({"action": "create", "manifest": manifest(queue="ml")}, {"job-w": 3}, "ml"),
        ({"action": "create", "manifest": manifest()}, {"job-w": 3}, "default"),
        ({"action": "delete", "manifest": manifest()}, {}, ""),
        ({"action": "create", "manifest": "kind: ["}, {}, ""),
        ({"action": "create", "manifest": manifest(minAvailable="{{inputs.parameters.n}}")}, {}, ""),
        ({"action": "create", "manifest": "{apiVersion: v1, kind: ConfigMap, data: {}}"}, {}, ""),
    ],
)
def test_an_object_of_a_known_kind_counts_with_its_pods(resource: Item, expected: dict[str, int], queue: str) -> None:
    steps = {"name": "main", "steps": [[step("job"), step("a")] if not expected else [step("job")]]}
    found = workflow(steps, {"name": "job", "resource": resource}, leaf("a"))
    assert {name: count for name, count in pods(found).items() if name != "a"} == expected
    assert found.queue == queue


def test_a_workflow_of_a_template_elsewhere_runs_nothing_that_is_known_and_one_by_the_clock_recurs() -> None:
    specs = read(API, "Workflow", {"workflowTemplateRef": {"name": "t"}})
    assert specs.gangs == ()
    assert "GP225" in {each.code for each in specs.diagnostics}
    spec = {"entrypoint": "c", "templates": list(LEAVES)}
    found = gang(API, "CronWorkflow", {"schedule": "0 3 * * *", "workflowSpec": spec})
    assert (found.scheduling.is_recurring, pods(found)) == (True, {"c": 1})
    assert gang(API, "Workflow", {**spec, "suspend": True}).scheduling.is_bound


def test_a_step_may_have_its_template_inside() -> None:
    main = {"name": "main", "steps": [[{"name": "a", "inline": leaf("", 2)}, step("b", withItems=[1, 2])]]}
    assert pods(workflow(main, *LEAVES)) == {"main.a": 1, "b": 2}


SHARED: Item = {
    "apiVersion": API,
    "kind": "WorkflowTemplate",
    "metadata": {"name": "shared"},
    "spec": {"entrypoint": "b", "nodeSelector": {"pool": "x"}, "templates": [*LEAVES]},
}
EVERYWHERE: Item = {**SHARED, "kind": "ClusterWorkflowTemplate"}


def referring(spec: Item, *others: Item) -> tuple[list[tuple[GangSpec, dict[str, int]]], list[str]]:
    """Gangs with their pods, and codes, of a Workflow with generateName next to other documents; without that of kinds
    which the shipped rights do not cover."""
    document = {"apiVersion": API, "kind": "Workflow", "metadata": {"generateName": "x-"}, "spec": spec}
    files = {"jobs/a.yaml": json.dumps(document).encode()}
    files |= {f"jobs/{number}.yaml": json.dumps(other).encode() for number, other in enumerate(others)}
    specs = read_specs(Repository({**files, "cluster-specs/c/conf.yaml": b""}))
    own = (each for each in specs.diagnostics if each.position.file == "jobs/a.yaml")
    codes = [each.code for each in own if each.code != "GP357"]
    return [(found, pods(found)) for found in specs.gangs], codes


def test_a_workflow_runs_the_template_that_it_names() -> None:
    ((found, counts),), codes = referring({"workflowTemplateRef": {"name": "shared"}}, SHARED)
    assert (counts, sorted(codes)) == ({"b": 1}, ["GP138", "GP222"])
    assert (found.roles[0].pod.node_selector, found.roles[0].path) == ({"pool": "x"}, ("spec", "workflowTemplateRef"))
    spec = {"workflowTemplateRef": {"name": "shared", "clusterScope": True}, "entrypoint": "c"}
    (((_, counts),), _), (other, _) = referring(spec, SHARED, EVERYWHERE), referring(spec, SHARED)
    assert (counts, other) == ({"c": 1}, [])


def test_a_step_runs_a_template_of_another_document_and_what_that_one_names() -> None:
    inner = {"name": "inner", "steps": [[step("b"), step("c", withItems=[1, 2])]]}
    shared = {**SHARED, "spec": {"templates": [inner, *LEAVES]}}
    of_shared = {"name": "s", "templateRef": {"name": "shared", "template": "inner"}}
    main = {"name": "main", "steps": [[of_shared, step("b")]]}
    ((_, counts),), _ = referring({"entrypoint": "main", "templates": [main, *LEAVES]}, shared)
    assert counts == {"shared.b": 1, "shared.c": 2, "b": 1}


def test_templates_that_are_elsewhere_are_one_warning() -> None:
    assert referring({"workflowTemplateRef": {"name": "shared"}}) == ([], ["GP225"])
    of_shared = {"name": "s", "templateRef": {"name": "shared", "template": "inner"}}
    assert referring({"entrypoint": "main", "templates": [{"name": "main", "steps": [[of_shared]]}]}) == ([], ["GP225"])
    main = {"name": "main", "steps": [[of_shared, step("b")]]}
    ((_, counts),), codes = referring({"entrypoint": "main", "templates": [main, *LEAVES]})
    assert (counts, sorted(codes)) == ({"b": 1}, ["GP138", "GP222", "GP225"])


@pytest.mark.parametrize("value", [0, True, 0.5, "a"])
def test_argo_reads_numbers_as_the_text_of_parameters(value: object) -> None:
    """Its usual CRDs say nothing of fields, and it decodes `value: 0` and `cpu: 0.5`."""
    container = {"image": "i", "resources": {"requests": {"cpu": 0.5}}}
    parameters = {"parameters": [{"name": "n", "value": value, "default": value, "enum": [value]}]}
    template = {"name": "main", "inputs": parameters, "container": container}
    spec = {"entrypoint": "main", "templates": [template], "arguments": {"parameters": [{"name": "n", "value": value}]}}
    found = {"apiVersion": API, "kind": "WorkflowTemplate", "metadata": {"name": "t"}, "spec": spec}
    files = {"jobs/a.yaml": json.dumps(found).encode()}
    diagnostics = read_specs(Repository(files)).diagnostics
    assert [each.code for each in diagnostics if each.position.file in files] == ["GP357"]
