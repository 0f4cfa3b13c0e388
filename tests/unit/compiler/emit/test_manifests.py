"""What the objects say, given small repositories."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.lock import lock_text
from compiler.emit.waves import fill_job_defaults, manifest_texts, manifests, texts_by_file
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from tests.builders.repositories import CLUSTER, CONTAINER, JOB, POOL

CONF = 'actions: "allocate, reclaim"\ntiers:\n- plugins:\n  - name: gang\n'


def compiled(*texts: str, binding: str = "gated", state: ClusterState | None = None) -> Outcome:
    parts = "---\n".join([CLUSTER.replace("BINDING", binding), POOL, *texts])
    return compile_repository(Repository({"cluster-specs/t/all.yaml": parts.encode()}), state=state)


def objects(outcome: Outcome) -> dict[str, dict[str, Any]]:
    return {f"{m.object['kind']} {m.object['metadata']['name']}": m.object for m in manifests(outcome)}


def test_text_and_object_of_every_manifest_say_the_same() -> None:
    outcome = compiled(JOB.replace("NAME", "a"), JOB.replace("NAME", "b").replace("replicas: 2", "replicas: 9"))
    for manifest, text in manifest_texts(outcome):
        assert YAML(typ="safe").load(text) == manifest.object
        assert text.endswith("\n")
    assert [m.wave for m in manifests(outcome)] == sorted(m.wave for m in manifests(outcome))


def test_a_pool_emits_its_hypernodes_and_no_nodes() -> None:
    made = objects(compiled())
    assert list(made) == ["HyperNode n-sn-0", "HyperNode n-sn-1"]
    assert made["HyperNode n-sn-1"]["spec"] == {
        "tier": 1,
        "tierName": "sn",
        "members": [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in ("n-2", "n-3")],
    }


def test_queues_come_parents_first_with_volcanos_defaults() -> None:
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: NAME}\nspec: {parent: PARENT}\n"
    outcome = compiled(
        *(queue.replace("NAME", n).replace("PARENT", p) for n, p in (("a", "z"), ("m", "a"), ("z", "root")))
    )
    assert [m.object["metadata"]["name"] for m in manifests(outcome) if m.wave == 1] == ["z", "a", "m"]
    assert objects(outcome)["Queue a"]["spec"] == {"parent": "z", "weight": 1, "reclaimable": True}


@pytest.mark.parametrize(("written", "emitted"), [("eng/dev", "root/eng/dev"), ("root/eng", "root/eng")])
def test_a_hierarchy_begins_with_the_root(written: str, emitted: str) -> None:
    notes = f"{{volcano.sh/hierarchy: {written}, volcano.sh/hierarchy-weights: 2/3}}"
    metadata = f"metadata:\n  name: q\n  annotations: {notes}\n"
    outcome = compiled(f"apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\n{metadata}spec: {{weight: 2}}\n")
    (found,) = [each for each in manifest_texts(outcome) if each[0].object["kind"] == "Queue"]
    assert found[0].object["metadata"]["annotations"]["volcano.sh/hierarchy"] == emitted
    assert YAML(typ="safe").load(found[1]) == found[0].object


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"queue": "default", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": 3}),
        ({"minAvailable": 2, "queue": "q", "maxRetry": 9}, {"queue": "q", "maxRetry": 9, "minAvailable": 2}),
        ({"minAvailable": 0}, {"minAvailable": 3}),
        ({"plugins": {"mpi": []}}, {"plugins": {"mpi": [], "svc": [], "ssh": []}}),
        (
            {"plugins": {"pytorch": ["--port=1"], "svc": ["--x"]}},
            {"plugins": {"pytorch": ["--port=1"], "svc": ["--x"]}},
        ),
        ({"plugins": {"env": []}}, {"plugins": {"env": []}}),
    ],
)
def test_what_volcano_would_fill_in_is_written_out(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    data = {"spec": {**spec, "tasks": [{"replicas": 3, "template": {"spec": {}}}]}}
    fill_job_defaults(data, "default")
    assert {key: data["spec"][key] for key in expected} == expected
    assert data["spec"]["tasks"] == [
        {"name": "default0", "replicas": 3, "minAvailable": 3, "maxRetry": 3, "template": {"spec": {}}}
    ]


def test_task_defaults_follow_partitions_and_the_hosts_network() -> None:
    task = {
        "name": "w",
        "replicas": 8,
        "maxRetry": 1,
        "partitionPolicy": {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3},
        "template": {"spec": {"hostNetwork": True}},
    }
    data: dict[str, Any] = {"spec": {"tasks": [task]}}
    fill_job_defaults(data, "default")
    assert (task["minAvailable"], task["maxRetry"]) == (6, 1)
    assert data["spec"]["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_a_gang_of_minimum_zero_stays_at_zero() -> None:
    data: dict[str, Any] = {
        "spec": {
            "minAvailable": 0,
            "tasks": [{"name": "w", "replicas": 2, "minAvailable": 0, "template": {"spec": {}}}],
        }
    }
    fill_job_defaults(data, "default")
    assert (data["spec"]["minAvailable"], data["spec"]["tasks"][0]["minAvailable"]) == (0, 0)


def test_every_gated_job_carries_the_gate_and_the_plan_in_annotations() -> None:
    outcome = compiled(JOB.replace("NAME", "fits"), JOB.replace("NAME", "waits").replace("replicas: 2", "replicas: 9"))
    made = objects(outcome)
    for name in ("fits", "waits"):
        assert made[f"Job {name}"]["spec"]["tasks"][0]["template"]["spec"]["schedulingGates"] == [
            {"name": "gangplan.dev/placement"}
        ]
    fits, waits = made["Job fits"]["metadata"]["annotations"], made["Job waits"]["metadata"]["annotations"]
    assert json.loads(fits["gangplan.dev/placement"]) == outcome.placements["default", "fits", "Job"]
    assert list(waits) == ["gangplan.dev/waiting"]
    assert waits["gangplan.dev/waiting"].startswith("GW108: ")


def test_bare_pods_of_a_group_are_gated_and_come_after_it() -> None:
    group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 2}\n"
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: NAME\n  annotations: {scheduling.k8s.io/group-name: g}\n"
        f"spec: {CONTAINER[:-1]}, schedulerName: volcano}}\n"
    )
    outcome = compiled(pod.replace("NAME", "p0"), group, pod.replace("NAME", "p1"))
    jobs = [m.object for m in manifests(outcome) if m.wave == 5]
    assert [job["metadata"]["name"] for job in jobs] == ["g", "p0", "p1"]
    assert all(pod["spec"]["schedulingGates"] == [{"name": "gangplan.dev/placement"}] for pod in jobs[1:])
    assert sum(sum(nodes.values()) for nodes in outcome.placements["default", "g", "PodGroup"].values()) == 2


def test_a_suspended_job_is_emitted_as_it_is_and_waits() -> None:
    job = (
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a}}\n"
        f"spec: {{suspend: true, template: {{spec: {CONTAINER[:-1]}, restartPolicy: Never}}}}}}\n"
    )
    outcome = compiled(job)
    assert [reason.code for decided in outcome.decisions for reason in decided.reasons] == ["GW111"]
    assert "schedulingGates" not in objects(outcome)["Job a"]["spec"]["template"]["spec"]


def test_static_binding_requires_the_nodes_in_every_alternative() -> None:
    affinity = (
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [%s, %s]}}}"
    )
    terms = [f"{{matchExpressions: [{{key: {key}, operator: DoesNotExist}}]}}" for key in "ab"]
    outcome = compiled(
        JOB.replace("NAME", "j").replace(CONTAINER, f"{CONTAINER[:-1]}, {affinity % tuple(terms)}}}"), binding="static"
    )
    pod = objects(outcome)["Job j"]["spec"]["tasks"][0]["template"]["spec"]
    nodes = sorted(outcome.placements["default", "j", "Job"]["worker"])
    found = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchExpressions"][1] for term in found] == [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    ] * 2
    assert "schedulingGates" not in pod


def test_counts_that_follow_from_the_nodes_need_no_finding() -> None:
    full = compiled(JOB.replace("NAME", "j").replace("cpu: 4", "cpu: 8"), binding="static")
    assert [d.code for d in full.diagnostics if d.code.startswith("GP52")] == []
    loose = compiled(
        JOB.replace("NAME", "j").replace("cpu: 4", "cpu: 3").replace("replicas: 2", "replicas: 3"), binding="static"
    )
    assert [d.code for d in loose.diagnostics if d.code.startswith("GP52")] == ["GP520"]


def test_a_finished_job_keeps_its_gate_and_has_no_plan() -> None:
    outcome = compiled(JOB.replace("NAME", "a"), state=ClusterState(finished=frozenset({("default", "a", "Job")})))
    job = objects(outcome)["Job a"]
    assert [decided.action for decided in outcome.decisions] == ["done"]
    assert "annotations" not in job["metadata"]
    assert "schedulingGates" in job["spec"]["tasks"][0]["template"]["spec"]


def conf(outcome: Outcome) -> Any:
    (text,) = objects(outcome)["ConfigMap volcano"]["data"].values()
    return YAML(typ="safe").load(text)


OURS = """\
apiVersion: gangplan.dev/v1alpha1
kind: SchedulerConfiguration
metadata: {name: volcano, namespace: volcano-system}
spec:
  actions: [allocate, reclaim]
  tiers: [{plugins: [{name: gang, enablePreemptable: false, arguments: {x: 1}}]}]
  configurations: [{name: allocate, arguments: {predicateErrorCacheEnable: true}}]
"""


def raw(text: str) -> str:
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: volcano, namespace: volcano-system} # mine\n"
    return f"{head}data:\n  volcano-scheduler.conf: |\n{indented}"


@pytest.mark.parametrize("text", [OURS, raw(CONF), raw(CONF + "configurations:\n- name: allocate\n")])
def test_gated_binding_switches_the_error_cache_off_everywhere(text: str) -> None:
    settings = {
        entry["name"]: entry["arguments"]["predicateErrorCacheEnable"]
        for entry in conf(compiled(text))["configurations"]
    }
    assert settings == dict.fromkeys(("allocate", "backfill", "preempt", "reclaim"), False)


def test_static_binding_leaves_the_scheduler_as_written() -> None:
    said = conf(compiled(OURS, binding="static"))
    assert said == {
        "actions": "allocate, reclaim",
        "tiers": [{"plugins": [{"name": "gang", "enablePreemptable": False, "arguments": {"x": 1}}]}],
        "configurations": [{"name": "allocate", "arguments": {"predicateErrorCacheEnable": True}}],
    }
    (text,) = [text for m, text in manifest_texts(compiled(raw(CONF), binding="static")) if m.wave == 3]
    assert text == raw(CONF)


def test_a_scheduler_text_that_is_right_already_stays_byte_for_byte() -> None:
    off = "".join(
        f"- {{name: {a}, arguments: {{predicateErrorCacheEnable: false}}}} # off\n"
        for a in ("allocate", "backfill", "preempt", "reclaim")
    )
    right = raw(f"{CONF}configurations:\n{off}")
    (text,) = [text for m, text in manifest_texts(compiled(right)) if m.wave == 3]
    assert text == right


def test_a_scheduler_configuration_says_how_its_config_map_is_kept() -> None:
    """Helm's ConfigMap could not be taken over: the annotation that the message asks for went nowhere."""
    head = 'metadata: {name: volcano, annotations: {gangplan.dev/adopt: "true", mine: x}, namespace: volcano-system}'
    said = OURS.replace("metadata: {name: volcano, namespace: volcano-system}", head)
    metadata = objects(compiled(said))["ConfigMap volcano"]["metadata"]
    assert metadata["annotations"] == {"gangplan.dev/adopt": "true"}
    assert "annotations" not in objects(compiled(OURS))["ConfigMap volcano"]["metadata"]


def test_nothing_with_an_error_is_emitted() -> None:
    outcome = compiled(JOB.replace("NAME", "good"), JOB.replace("NAME", "bad").replace("replicas: 2", "replicas: two"))
    assert "Job good" in objects(outcome)
    assert "Job bad" not in objects(outcome)
    assert outcome.exit_code() == 1
    assert outcome.ok


def test_files_keep_the_order_of_the_waves() -> None:
    files = texts_by_file(manifest_texts(compiled(OURS, JOB.replace("NAME", "a"))))
    assert list(files) == sorted(files) == ["2-hypernodes.yaml", "3-scheduler.yaml", "5-jobs/default/a.job.yaml"]


def test_the_lock_names_inputs_placements_and_proof_but_no_time() -> None:
    outcome = compiled(JOB.replace("NAME", "a"))
    said = YAML(typ="safe").load(lock_text(outcome))
    assert list(said["inputs"]) == ["cluster-specs/t/all.yaml"]
    assert said["digest"] == outcome.digest
    assert said["jobs"] == [
        {
            "job": "default/a",
            "kind": "Job",
            "decision": "start",
            "pods": {"worker": dict(outcome.decisions[0].pods["worker"])},
        }
    ]
    assert {objective["verdict"] for objective in said["batches"][0]["objectives"]} == {"proven"}
    assert "seconds" not in lock_text(outcome)
    assert compiled(JOB.replace("NAME", "b")).digest != outcome.digest


@pytest.mark.parametrize(("note", "expected"), [('{metax-tech.com/gpu-group-size: "4"}', ["GP520"]), ("{}", [])])
def test_groups_that_volcano_does_not_know_of_are_named_when_they_sit_in_several_domains(
    note: str, expected: list[str]
) -> None:
    pod = "{containers: [{name: c, image: a, resources: {requests: {x.io/gpu: 2}, limits: {x.io/gpu: 2}}}]}"
    template = f"template: {{metadata: {{annotations: {note}}}, spec: {pod}}}"
    job = (
        JOB.replace("NAME", "j")
        .replace("replicas: 2", "replicas: 4")
        .replace(f"template: {{spec: {CONTAINER}}}", template)
    )
    pool = POOL.replace("cpu: 8", "cpu: 8, x.io/gpu: 2")
    text = "---\n".join([CLUSTER.replace("BINDING", "static"), pool, job])
    outcome = compile_repository(Repository({"cluster-specs/t/all.yaml": text.encode()}))
    assert [decided.action for decided in outcome.decisions] == ["start"]
    assert [d.code for d in outcome.diagnostics if d.code.startswith("GP52")] == expected


FOO = "apiVersion: example.org/v1\nkind: KIND\nmetadata: {name: foo}\nspec: SPEC\n"


@pytest.mark.parametrize(
    ("kind", "spec", "is_run"),
    [
        ("FooJob", "{ttlSecondsAfterFinished: 60}", True),
        ("FooJob", "{runPolicy: {ttlSecondsAfterFinished: 60}}", True),
        ("FooJob", "{image: x}", False),
        ("WorkflowTemplate", "{ttlStrategy: {secondsAfterCompletion: 60}}", False),
    ],
)
def test_what_is_deleted_some_time_after_its_end_is_a_run_whatever_its_kind(kind: str, spec: str, is_run: bool) -> None:
    """S16: it was a service, which is made again whenever it is gone."""
    (found,) = (m for m in manifests(compiled(FOO.replace("KIND", kind).replace("SPEC", spec))) if m.wave == 4)
    assert bool(found.run_digest) == is_run
    assert found.object["metadata"].get("namespace") == ("default" if is_run else None)


def test_a_kind_that_the_cluster_declares_to_run_for_ever_is_no_run_for_its_time_to_live() -> None:
    declared = "gated, jobKinds: [{apiVersion: example.org/v1, kind: FooJob, runs: RUNS, roles: [{template: spec.t}]}]"
    pods = "{ttlSecondsAfterFinished: 60, t: {spec: {containers: [{name: c, image: x}]}}}"
    for runs in ("once", "forever"):
        foo = FOO.replace("KIND", "FooJob").replace("SPEC", pods)
        made = manifests(compiled(foo, binding=declared.replace("RUNS", runs)))
        (found,) = (m for m in made if m.object["kind"] == "FooJob")
        assert bool(found.run_digest) == (runs == "once")


def test_a_run_of_an_unknown_kind_may_have_its_name_generated() -> None:
    foo = FOO.replace("name: foo", "generateName: foo-").replace("KIND", "FooJob")
    for spec, severity in (("{ttlSecondsAfterFinished: 60}", "info"), ("{image: x}", "warning")):
        outcome = compiled(foo.replace("SPEC", spec))
        said = [each.severity for each in outcome.diagnostics if each.code == "GP138"]
        assert said == [severity]
        assert len([m for m in manifests(outcome) if m.wave == 4]) == (severity == "info")
