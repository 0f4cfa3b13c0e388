"""Kubernetes' rules on values, each with a breach; that they agree with the real one is tests/differential's matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.validation.judge import Judge
from compiler.validation.names import ANNOTATION_KEY, DNS_LABEL, LABEL_VALUE, PORT_NAME, QUALIFIED
from compiler.validation.object_rules import objects, pod_names, pod_spec
from compiler.validation.schedules import schedule_objection

VALUES: dict[str, Any] = yaml.safe_load((Path(__file__).parents[3] / "fixtures" / "values.yaml").read_text())


def said(pod: dict[str, Any], **container: Any) -> list[tuple[str, str]]:
    judge = Judge()
    whole = {"containers": [{"name": "a", "image": "a", **container}], **pod}
    pod_spec(judge, whole, (), "")
    return [(flaw.rule.code, ".".join(map(str, flaw.path))) for flaw in judge.flaws]


@pytest.mark.parametrize(("expected", "container"), VALUES["containers"])
def test_containers(expected: str, container: dict[str, Any]) -> None:
    code, _, path = expected.partition(" ")
    assert said({}, **container) == [(code, f"containers.0.{path}")]


@pytest.mark.parametrize(("expected", "pod"), VALUES["pods"])
def test_pods(expected: str, pod: dict[str, Any]) -> None:
    code, _, path = expected.partition(" ")
    assert said(pod) == [(code, path)]


def test_what_is_fine_is_not_told() -> None:
    mounts = [{"name": "v", "mountPath": "/a"}]
    resources = {"requests": {"cpu": 1, "nvidia.com/gpu": 2}, "limits": {"cpu": "1000m", "nvidia.com/gpu": "2"}}
    assert said({"volumes": [{"name": "v"}]}, volumeMounts=mounts, resources=resources) == []


def test_a_controller_may_fill_in_the_image() -> None:
    for group, expected in (("trainer.kubeflow.org", []), ("kubeflow.org", ["GP203"])):
        judge = Judge()
        pod_spec(judge, {"containers": [{"name": "a"}]}, (), group)
        assert [flaw.rule.code for flaw in judge.flaws] == expected


@pytest.mark.parametrize(("kind", "spec", "expected"), VALUES["objects"])
def test_objects(kind: str, spec: Any, expected: list[str]) -> None:
    judge = Judge()
    objects(judge, kind, {"metadata": {"name": "a"}, "spec": spec})
    assert sorted(flaw.rule.code for flaw in judge.flaws) == expected


@pytest.mark.parametrize(("kind", "data", "expected"), VALUES["access"])
def test_who_may_do_what(kind: str, data: dict[str, Any], expected: list[str]) -> None:
    judge = Judge()
    objects(judge, f"{kind}.rbac.authorization.k8s.io", {"metadata": {"name": "a"}, **data})
    assert [".".join(map(str, flaw.path)) for flaw in judge.flaws][-1:] == expected


def test_a_train_job_has_the_name_of_a_service() -> None:
    judge = Judge()
    objects(judge, "TrainJob.trainer.kubeflow.org", {"metadata": {"name": "1a"}, "spec": {}})
    assert [flaw.path for flaw in judge.flaws] == [("metadata", "name")]


@pytest.mark.parametrize("odd", [None, 1, "a", [], {}, [None], {"a": 1}, [[]]])
@pytest.mark.parametrize(
    "key", ["volumes", "affinity", "tolerations", "securityContext", "initContainers", "dnsConfig"]
)
def test_nothing_is_assumed_of_types(key: str, odd: Any) -> None:
    said({key: odd}, env=odd, ports=odd, resources=odd, volumeMounts=odd, livenessProbe=odd)


def test_names() -> None:
    assert [DNS_LABEL.objection(name) is None for name in ("a-1", "A", "a.b", "a" * 64)] == [True, False, False, False]
    assert [QUALIFIED.objection(name) is None for name in ("a.b/C_d", "a b", "A/b", "/a")] == [
        True,
        False,
        False,
        False,
    ]
    assert ANNOTATION_KEY.objection("A.b/c") is None
    assert [LABEL_VALUE.objection(name) is None for name in ("", "a_b", "a ")] == [True, True, False]
    assert [PORT_NAME.objection(name) is None for name in ("web-1", "1", "a--b", "a" * 16)] == [
        True,
        False,
        False,
        False,
    ]


def test_schedules() -> None:
    good = ("0 3 * * *", "*/5 1-5,7 * JAN MON-FRI", "@daily", "@every 1h")
    assert [schedule_objection(schedule) for schedule in good] == [""] * len(good)
    bad = ("60 * * * *", "* * * *", "@never", "TZ=UTC 0 3 * * *", "5-1 * * * *", "*/0 * * * *")
    assert all(schedule_objection(schedule) for schedule in bad)


def test_pods_get_names_of_63_characters_at_most() -> None:
    judge = Judge()
    tasks = [{"name": "worker", "replicas": 11}]
    pod_names(judge, "Job.batch.volcano.sh", {"metadata": {"name": "j" * 53}, "spec": {"tasks": tasks}})
    pod_names(judge, "Job.batch.volcano.sh", {"metadata": {"name": "j" * 54}, "spec": {"tasks": tasks}})
    assert [flaw.path for flaw in judge.flaws] == [("spec", "tasks", 0, "name")]


def test_a_deployment_selects_its_own_pods() -> None:
    judge = Judge()
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "c"}}}}
    objects(judge, "Deployment.apps", {"metadata": {"name": "x"}, "spec": spec})
    assert [flaw.path for flaw in judge.flaws] == [("spec", "selector")]


@pytest.mark.parametrize(("group", "codes"), [("batch.volcano.sh", ["GP243"]), ("batch", [])])
def test_volcano_s_webhook_takes_a_restart_policy_of_init_containers_only(group: str, codes: list[str]) -> None:
    judge = Judge()
    sidecar = {"name": "b", "image": "a", "restartPolicy": "Always"}
    main = {"name": "a", "image": "a", "restartPolicy": "Never"}
    pod_spec(judge, {"initContainers": [sidecar], "containers": [main]}, (), group)
    assert [flaw.rule.code for flaw in judge.flaws] == codes
