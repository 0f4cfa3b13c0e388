"""Kubernetes' rules on values, each with a breach; that they agree with the real one is tests/differential's matter."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.validation.cron import schedule_objection
from compiler.validation.judge import Judge
from compiler.validation.names import ANNOTATION_KEY, DNS_LABEL, LABEL_VALUE, PORT_NAME, QUALIFIED
from compiler.validation.object_rules import objects, pod_names
from compiler.validation.pods import pod_spec

RUN: dict[str, Any] = {"exec": {"command": ["true"]}}
GRACE = "terminationGracePeriodSeconds"
NAMED = {"name": "a"}
ACCOUNT = {"kind": "ServiceAccount", "name": "a"}
CLAIM: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
ELASTIC: dict[str, Any] = {"elasticPolicy": {"minNodes": 1}}
IN_ORDER: dict[str, Any] = {
    "startupPolicy": {"startupPolicyOrder": "InOrder"},
    "replicatedJobs": [{"name": "a"}, {"name": "b", "dependsOn": [{"name": "a", "status": "Ready"}]}],
}
POLICY: dict[str, Any] = {"template": {"spec": {"restartPolicy": "Never"}}}


def _exit_codes(*codes: int) -> dict[str, Any]:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [*codes]}}
    return {"podFailurePolicy": {"rules": [rule]}}


def said(pod: dict[str, Any], **container: Any) -> list[tuple[str, str]]:
    judge = Judge()
    whole = {"containers": [{"name": "a", "image": "a", **container}], **pod}
    pod_spec(judge, whole, (), "")
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
        ({"image": None}, ("GP203", "image")),
        ({"resources": {"requests": {"nvidia.com/gpu": 1}}}, ("GP241", "resources.requests.nvidia.com/gpu")),
        ({"resources": {"limits": {"hugepages-2Mi": "3Mi", "cpu": 1}}}, ("GP243", "resources.limits.hugepages-2Mi")),
        ({"resources": {"claims": [{"name": "c"}]}}, ("GP242", "resources.claims.0")),
        ({"resizePolicy": [{"resourceName": "gpu"}]}, ("GP205", "resizePolicy.0.resourceName")),
        ({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}, ("GP242", "volumeDevices.0.name")),
        ({"readinessProbe": {**RUN, "terminationGracePeriodSeconds": 5}}, ("GP243", f"readinessProbe.{GRACE}")),
        ({"livenessProbe": {**RUN, "terminationGracePeriodSeconds": 0}}, ("GP206", f"livenessProbe.{GRACE}")),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}, ("GP206", "lifecycle.preStop.sleep.seconds")),
        (
            {"startupProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "a b"}]}}},
            ("GP211", "startupProbe.httpGet.httpHeaders.0.name"),
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
            ("GP203", "securityContext.seccompProfile.localhostProfile"),
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "3"}}}]},
            ("GP243", "env.0.valueFrom.resourceFieldRef.divisor"),
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}}]},
            ("GP211", "env.0.valueFrom.fieldRef.fieldPath"),
        ),
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
        ({"hostUsers": False, "hostPID": True}, ("GP243", "hostPID")),
        ({"dnsConfig": {"nameservers": ["a"]}}, ("GP243", "dnsConfig.nameservers.0")),
        ({"dnsConfig": {"searches": ["a b"]}}, ("GP211", "dnsConfig.searches.0")),
        ({"securityContext": {"supplementalGroups": [-1]}}, ("GP206", "securityContext.supplementalGroups.0")),
        ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, ("GP243", "resources.limits.nvidia.com/gpu")),
        ({"volumes": [{"name": "a", "csi": {"driver": "A_b"}}]}, ("GP211", "volumes.0.csi.driver")),
        ({"volumes": [{"name": "a", "ephemeral": {}}]}, ("GP203", "volumes.0.ephemeral.volumeClaimTemplate")),
        (
            {"volumes": [{"name": "a", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "spec"}}]}}]},
            ("GP205", "volumes.0.downwardAPI.items.0.fieldRef.fieldPath"),
        ),
        (
            {"volumes": [{"name": "a", "projected": {"sources": [{"secret": {"name": "a"}, "configMap": NAMED}]}}]},
            ("GP243", "volumes.0.projected.sources.0"),
        ),
    ],
)
def test_pods(pod: dict[str, Any], expected: tuple[str, str]) -> None:
    assert said(pod) == [expected]


def test_what_is_fine_is_not_told() -> None:
    mounts = [{"name": "v", "mountPath": "/a"}]
    resources = {"requests": {"cpu": 1, "nvidia.com/gpu": 2}, "limits": {"cpu": "1000m", "nvidia.com/gpu": "2"}}
    assert said({"volumes": [{"name": "v"}]}, volumeMounts=mounts, resources=resources) == []


def test_a_controller_may_fill_in_the_image() -> None:
    for group, expected in (("trainer.kubeflow.org", []), ("kubeflow.org", ["GP203"])):
        judge = Judge()
        pod_spec(judge, {"containers": [{"name": "a"}]}, (), group)
        assert [flaw.rule.code for flaw in judge.flaws] == expected


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("Job.batch", {"template": {"spec": {"containers": []}}}, ["GP203"]),
        ("Job.batch", {"template": {"spec": {"restartPolicy": "Never"}}}, []),
        ("Pod.", {"priority": 5}, ["GP243"]),
        ("Pod.", {"priority": 5, "priorityClassName": "a"}, []),
        ("Pod.", {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}] * 2}]}, ["GP240"]),
        ("Pod.", {"containers": [{"ports": [{"containerPort": 80}] * 2}]}, []),
        ("Job.batch", {"backoffLimitPerIndex": 1, "successPolicy": {}}, ["GP243", "GP243"]),
        ("Job.batch", {"completionMode": "Indexed", "completions": 1, "parallelism": 100_001}, ["GP206"]),
        ("Job.batch", {"maxFailedIndexes": 1, "managedBy": "kueue"}, ["GP243", "GP243"]),
        ("Job.batch", {"managedBy": "kueue.x-k8s.io/multikueue"}, []),
        ("Job.batch", {"podFailurePolicy": {}, "podReplacementPolicy": "TerminatingOrFailed"}, ["GP243", "GP243"]),
        ("Job.batch", POLICY | {"podFailurePolicy": {"rules": [{"action": "FailIndex"}]}}, ["GP243"]),
        ("Job.batch", POLICY | _exit_codes(42, 3), ["GP243"]),
        ("Job.batch", POLICY | _exit_codes(0), ["GP243"]),
        ("Job.batch", POLICY | _exit_codes(3, 42), []),
        ("Job.batch.volcano.sh", {"runningEstimate": "3600"}, ["GP243"]),
        ("Job.batch.volcano.sh", {"tasks": [{"policies": [{"timeout": "1 hour"}]}]}, ["GP243"]),
        ("Job.batch.volcano.sh", {"runningEstimate": "1h30m", "policies": [{"timeout": "0"}, {"timeout": ".5h"}]}, []),
        ("Pod.", {"ephemeralContainers": [{"name": "a"}]}, ["GP243"]),
        ("Queue.scheduling.volcano.sh", None, ["GP203"]),
        ("Queue.scheduling.volcano.sh", {}, []),
        ("CronJob.batch.volcano.sh", {"schedule": "@daily", "timeZone": "../x"}, ["GP243"]),
        ("CronJob.batch.volcano.sh", {"schedule": "@daily", "timeZone": "America/North_Dakota/Center"}, []),
        ("CronJob.batch.volcano.sh", {"schedule": "@daily", "timeZone": "Europe/Nowhere"}, ["GP243"]),
        ("CronJob.batch.volcano.sh", {"schedule": "@daily", "timeZone": "posix/Europe/Berlin"}, []),
        ("Service.", {"selector": {"a": "b"}}, ["GP203"]),
        ("Service.", {"clusterIP": "None"}, []),
        ("Service.", {"type": "ExternalName", "externalName": "a.example"}, []),
        ("Service.", {"ports": [{"port": 80}, {"port": 0, "name": "a"}]}, ["GP203", "GP206"]),
        ("Service.", {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}, ["GP240"]),
        ("PersistentVolumeClaim.", {"accessModes": ["RWO"], "resources": {"requests": {"storage": 1}}}, ["GP205"]),
        ("PersistentVolumeClaim.", CLAIM | {"storageClassName": "Your class"}, ["GP211"]),
        ("TrainingRuntime.trainer.kubeflow.org", {"mlPolicy": {"torch": {}, "mpi": {}}}, ["GP243"]),
        ("TrainingRuntime.trainer.kubeflow.org", {"mlPolicy": {"numNodes": 2, "torch": ELASTIC}}, ["GP243"]),
        ("TrainingRuntime.trainer.kubeflow.org", {"mlPolicy": {"torch": {"numProcPerNode": "4"}}}, ["GP243"]),
        ("TrainingRuntime.trainer.kubeflow.org", {"mlPolicy": {"torch": {"numProcPerNode": 4}}}, []),
        ("ClusterTrainingRuntime.trainer.kubeflow.org", {"template": {"spec": IN_ORDER}}, ["GP243"]),
        ("JobSet.jobset.x-k8s.io", IN_ORDER, ["GP243"]),
        ("JobSet.jobset.x-k8s.io", IN_ORDER | {"replicatedJobs": [{"name": "a"}]}, []),
        ("TrainJob.trainer.kubeflow.org", {"managedBy": "me"}, ["GP205"]),
        ("RayJob.ray.io", {"deletionPolicy": "DeleteAll", "rayClusterSpec": {"managedBy": "me"}}, ["GP205", "GP205"]),
        ("RayService.ray.io", {"rayClusterConfig": {"managedBy": "kueue.x-k8s.io/multikueue"}}, []),
        ("RayCluster.ray.io", {"managedBy": "ray.io/operator"}, ["GP205"]),
    ],
)
def test_objects(kind: str, spec: Any, expected: list[str]) -> None:
    judge = Judge()
    objects(judge, kind, {"metadata": {"name": "a"}, "spec": spec})
    assert [flaw.rule.code for flaw in judge.flaws] == expected


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("ClusterRole", {"rules": [{"verbs": ["get"], "resources": ["pods"], "apiGroups": [""]}]}, []),
        ("ClusterRole", {"rules": [{"verbs": ["get"], "resources": ["pods"]}]}, ["rules.0.apiGroups"]),
        ("ClusterRole", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]}, []),
        ("Role", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]}, ["rules.0.nonResourceURLs"]),
        ("ClusterRole", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/"], "resources": ["a"]}]}, ["rules.0"]),
        ("ClusterRole", {"rules": [{"verbs": [], "nonResourceURLs": ["/"]}]}, ["rules.0.verbs"]),
        ("ClusterRoleBinding", {"subjects": [ACCOUNT]}, ["subjects.0.namespace"]),
        ("ClusterRoleBinding", {"subjects": [ACCOUNT | {"namespace": "a"}]}, []),
        ("RoleBinding", {"subjects": [ACCOUNT], "roleRef": {"kind": "Role", "name": ""}}, ["roleRef.name"]),
        ("ClusterRoleBinding", {"roleRef": {"kind": "Role", "name": "a"}}, ["roleRef.kind"]),
        ("RoleBinding", {"subjects": [{"kind": "user", "apiGroup": "", "name": "a"}]}, ["subjects.0.kind"]),
        ("RoleBinding", {"subjects": [{"kind": "User", "apiGroup": "rbac", "name": "a"}]}, ["subjects.0.apiGroup"]),
    ],
)
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
