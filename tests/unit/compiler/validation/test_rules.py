"""Kubernetes' rules on values, each with a breach; that they agree with the real one is tests/differential's matter."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.validation.cron import schedule_objection
from compiler.validation.judge import Judge
from compiler.validation.names import ANNOTATION_KEY, DNS_LABEL, LABEL_VALUE, PORT_NAME, QUALIFIED
from compiler.validation.objects import objects, pod_names
from compiler.validation.pods import pod_spec


def said(pod: dict[str, Any], **container: Any) -> list[tuple[str, str]]:
    judge = Judge()
    whole = {"containers": [{"name": "a", "image": "a", **container}], **pod}
    pod_spec(judge, whole, (), by_webhook=False)
    return [(flaw.rule.code, ".".join(map(str, flaw.path))) for flaw in judge.flaws]


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}, ("GP241", "resources.requests.cpu")),
        ({"resources": {"limits": {"gpu": 1}}}, ("GP243", "resources.limits.gpu")),
        ({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}, ("GP242", "volumeMounts.0.name")),
        ({"ports": [{"containerPort": 70000}]}, ("GP206", "ports.0.containerPort")),
        ({"env": [{"name": "A=B"}]}, ("GP211", "env.0.name")),
        ({"envFrom": [{}]}, ("GP243", "envFrom.0")),
        ({"livenessProbe": {"periodSeconds": 1}}, ("GP243", "livenessProbe")),
        ({"imagePullPolicy": "always"}, ("GP205", "imagePullPolicy")),
    ],
)
def test_containers(container: dict[str, Any], expected: tuple[str, str]) -> None:
    assert said({}, **container) == [(expected[0], f"containers.0.{expected[1]}")]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({"tolerations": [{"operator": "Equal", "value": "a"}]}, ("GP243", "tolerations.0")),
        ({"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/a"}}]}, ("GP243", "volumes.0")),
        ({"nodeSelector": {"a": "b c"}}, ("GP211", "nodeSelector.a")),
        ({"hostname": "A"}, ("GP211", "hostname")),
        ({"dnsPolicy": "None"}, ("GP203", "dnsConfig")),
        ({"activeDeadlineSeconds": 0}, ("GP206", "activeDeadlineSeconds")),
    ],
)
def test_pods(pod: dict[str, Any], expected: tuple[str, str]) -> None:
    assert said(pod) == [expected]


def test_what_is_fine_is_not_told() -> None:
    mounts = [{"name": "v", "mountPath": "/a"}]
    resources = {"requests": {"cpu": 1, "nvidia.com/gpu": 2}, "limits": {"cpu": "1000m", "nvidia.com/gpu": "2"}}
    assert said({"volumes": [{"name": "v"}]}, volumeMounts=mounts, resources=resources) == []


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
