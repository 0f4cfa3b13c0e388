"""Kinds that only the Cluster knows (Cluster.spec.jobKinds): planned by their paths, or said where a path is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from compiler.emit.waves import manifests
from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.run_kinds import end_of_run
from compiler.specs.cluster_spec import Specs
from tests.builders import declared
from tests.builders.beside import beside
from tests.unit.compiler.kinds.operator_jobs import POD, minima

CASES = beside(__file__)
CLUSTER = CASES["cluster"]
GROUPS = [
    {"name": "actors", "count": 2, "least": 1, "template": POD},
    {"name": "learners", "count": 1, "template": POD},
]


def repository(spec: Mapping[str, Any], cluster: str = CLUSTER, version: str = "v1") -> Repository:
    labels = {"example.org/priority": "system-node-critical"}
    job = declared.declared("Training", "x", spec, api=f"example.org/{version}", labels=labels)
    pool = declared.node_pool(4, capacity={"cpu": 64, "memory": "512Gi", "nvidia.com/gpu": 8})
    # The Cluster is read after the job that it declares.
    files = {"a.json": json.dumps(job), "z.yaml": cluster, "zz.yaml": declared.yaml_of(declared.queue("ml"), pool)}
    return Repository({f"cluster-specs/c/{name}": text.encode() for name, text in files.items()})


def read(spec: Mapping[str, Any], cluster: str = CLUSTER, version: str = "v1") -> Specs:
    return read_specs(repository(spec, cluster, version))


def errors(specs: Specs) -> list[tuple[str, int, str]]:
    return [(each.code, each.position.line, each.message) for each in specs.diagnostics if each.severity == "error"]


def test_a_declared_kind_is_planned_by_its_paths() -> None:
    specs = read({"queueName": "ml", "leader": POD, "groups": GROUPS, "anything": {"else": [1]}})
    assert errors(specs) == []
    (found,) = specs.gangs
    assert minima(found) == (4, {"leader": (1, 1), "actors": (2, 2), "learners": (1, 1)})
    assert (found.queue, found.priority_class, found.scheduling.schedulable) == ("ml", "system-node-critical", True)
    assert found.roles[1].template_path == ("spec", "groups", 0, "template")
    assert not read({"paused": True, "leader": POD}).gangs[0].scheduling.schedulable


def test_a_declared_kind_may_start_with_the_minima_of_its_roles() -> None:
    cluster = CLUSTER.replace("setsVolcano: true", "starts: minimum")
    assert minima(read({"leader": POD, "groups": GROUPS}, cluster).gangs[0])[0] == 3


def test_a_declared_kind_is_emitted_with_gates_and_marks_and_runs_once() -> None:
    outcome = compile_repository(repository({"leader": POD, "groups": GROUPS}))
    (job,) = (each for each in manifests(outcome) if each.object["kind"] == "Training")
    template = job.object["spec"]["groups"][1]["template"]
    assert template["spec"]["schedulingGates"] == [{"name": "gangplan.dev/placement"}]
    assert template["metadata"]["annotations"]["gangplan.dev/role"] == "learners"
    assert job.run_digest
    live = {**job.object, "status": {"phase": "Succeeded"}}
    live["metadata"]["annotations"]["gangplan.dev/digest"] = job.run_digest
    assert end_of_run(live) == "Completed"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    CASES["a wrong declaration is said where it stands"],
    ids=["no path", "another list", "several queues", "a known kind"],
)
def test_a_wrong_declaration_is_said_where_it_stands(before: str, after: str, message: str) -> None:
    cluster = CLUSTER.replace(before, after)
    if after == "kind: RayJob":
        cluster = cluster.replace("example.org/v1", "ray.io/v1")
    line = next(at for at, text in enumerate(cluster.splitlines(), start=1) if after in text)
    assert errors(read({"leader": POD}, cluster)) == [("GP205", line, message)]


def test_paths_that_contradict_each_other_are_said() -> None:
    cluster = CLUSTER.replace("template: spec.leader", "template: spec.leader, replicas: spec.leader.spec.count")
    ((code, _, message),) = errors(read({"leader": POD}, cluster))
    assert (code, message) == ("GP205", "spec.leader does not go with another path at spec.leader")


def test_a_wrong_template_of_a_declared_kind_is_an_error_at_its_field() -> None:
    wrong: dict[str, Any] = {"leader": {"spec": {}}, "groups": [{"name": "a", "count": "two", "template": POD}]}
    found = {text for _, _, text in errors(read(wrong))}
    assert found == {
        "spec.leader.spec.containers is missing",
        "spec.groups[0].count is the text 'two', not a whole number",
    }


def test_another_version_and_a_path_to_nowhere_are_said_and_no_error() -> None:
    for specs in (read({"leader": POD}, version="v2"), read({"renamed": POD})):
        assert errors(specs) == []
        assert specs.gangs == ()
        assert "GP220" in {each.code for each in specs.diagnostics}
