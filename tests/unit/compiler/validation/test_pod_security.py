"""Rules of the Pod Security Standards: the level and the versions that have each of them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from compiler.validation.pod_security import LATEST, Level, enforced_level, label_objection, violations

STRICT: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def _pod(pod: dict[str, Any], container: dict[str, Any]) -> dict[str, Any]:
    """A pod that keeps every rule but for these fields of it and of its container."""
    return {"spec": {"containers": [{"name": "main", "securityContext": STRICT, **container}], **pod}}


def _context(**fields: Any) -> dict[str, Any]:
    return _pod({}, {"securityContext": {**STRICT, **fields}})


CASES: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("hostNetwork", "baseline", 0, _pod({"hostNetwork": True}, {})),
    ("privileged", "baseline", 0, _context(privileged=True)),
    ("capabilities.add[0]", "baseline", 0, _context(capabilities={"drop": ["ALL"], "add": ["IPC_LOCK"]})),
    ("hostPath", "baseline", 0, _pod({"volumes": [{"name": "a", "hostPath": {"path": "/a"}}]}, {})),
    ("hostPort", "baseline", 0, _pod({}, {"ports": [{"containerPort": 1, "hostPort": 1}]})),
    ("livenessProbe.httpGet.host", "baseline", 34, _pod({}, {"livenessProbe": {"httpGet": {"host": "a"}}})),
    ("preStop.tcpSocket.host", "baseline", 34, _pod({}, {"lifecycle": {"preStop": {"tcpSocket": {"host": "a"}}}})),
    ("appArmorProfile.type", "baseline", 0, _context(appArmorProfile={"type": "Unconfined"})),
    ("seLinuxOptions.user", "baseline", 0, _context(seLinuxOptions={"user": "a"})),
    ("procMount", "baseline", 0, _context(procMount="Unmasked")),
    ("seccompProfile.type", "baseline", 19, _context(seccompProfile={"type": "Unconfined"})),
    ("sysctls[0].name", "baseline", 0, _pod({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}, {})),
    ("windowsOptions.hostProcess", "baseline", 0, _context(windowsOptions={"hostProcess": True})),
    ("nfs", "restricted", 0, _pod({"volumes": [{"name": "a", "nfs": {"server": "a", "path": "/a"}}]}, {})),
    ("allowPrivilegeEscalation", "restricted", 8, _context(allowPrivilegeEscalation=None)),
    ("runAsNonRoot", "restricted", 0, _context(runAsNonRoot=False)),
    ("runAsUser", "restricted", 23, _context(runAsUser=0)),
    ("seccompProfile.type", "restricted", 19, _context(seccompProfile=None)),
    ("capabilities.drop", "restricted", 22, _context(capabilities={})),
    ("capabilities.add[0]", "restricted", 22, _context(capabilities={"drop": ["ALL"], "add": ["CHOWN"]})),
)


def _places(level: str, minor: int, pod: dict[str, Any]) -> list[str]:
    return [
        "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found.places[0])
        for found in violations(cast(Level, level), minor, pod)
    ]


@pytest.mark.parametrize(("field", "level", "since", "pod"), CASES, ids=lambda value: str(value)[:30])
def test_rule_of_a_level_since_a_version(field: str, level: str, since: int, pod: dict[str, Any]) -> None:
    assert [place.endswith(f".{field}") for place in _places("restricted", LATEST, pod)] == [True]
    assert bool(_places("baseline", LATEST, pod)) == (level == "baseline")
    assert _places(level, since, pod)
    assert since == 0 or not _places(level, since - 1, pod)
    assert not _places("privileged", LATEST, pod)


def test_safe_sysctls_and_selinux_types_grow_with_the_version() -> None:
    pod = _pod({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}}, {})
    assert _places("baseline", 31, pod)
    assert not _places("baseline", 32, pod)
    engine = _context(seLinuxOptions={"type": "container_engine_t"})
    assert _places("baseline", 30, engine)
    assert not _places("baseline", 31, engine)


def test_user_namespaces_and_windows_are_spared_where_the_version_spares_them() -> None:
    root = {**_context(runAsNonRoot=False, runAsUser=0)["spec"], "hostUsers": False}
    assert len(_places("restricted", 34, {"spec": root})) == 2
    assert not _places("restricted", 35, {"spec": root})
    unmasked = {**_context(procMount="Unmasked")["spec"], "hostUsers": False}
    assert not _places("baseline", 35, {"spec": unmasked})
    assert _places("restricted", 35, {"spec": unmasked})
    windows = {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}, "containers": [{"name": "a"}]}
    assert len(_places("restricted", 24, {"spec": windows})) == 3
    assert not _places("restricted", 25, {"spec": windows})


def test_a_pod_wide_setting_serves_containers_that_say_nothing() -> None:
    context = {key: STRICT[key] for key in ("runAsNonRoot", "seccompProfile")}
    kept = {key: STRICT[key] for key in ("allowPrivilegeEscalation", "capabilities")}
    assert not _places("restricted", LATEST, _pod({"securityContext": context}, {"securityContext": kept}))


def test_seccomp_and_apparmor_by_annotations() -> None:
    keys = ("seccomp.security.alpha.kubernetes.io/pod", "container.apparmor.security.beta.kubernetes.io/main")
    pod = _pod({}, {}) | {"metadata": {"annotations": dict.fromkeys(keys, "unconfined")}}
    assert len(_places("baseline", 18, pod)) == 2
    assert _places("baseline", 19, pod) == [f".metadata.annotations.{keys[1]}"]


@pytest.mark.parametrize("version", ["latest", "v1.0", "v1.35", "v1.400"])
def test_versions(version: str) -> None:
    assert label_objection("pod-security.kubernetes.io/enforce-version", version) is None


@pytest.mark.parametrize("version", ["", "1.35", "v1", "v1.05", "v2.0", "v1.3x", "v1.٣", "Latest"])
def test_what_is_no_version(version: str) -> None:
    assert label_objection("pod-security.kubernetes.io/enforce-version", version)


def test_level_of_a_namespace() -> None:
    assert enforced_level({}) == ("privileged", LATEST)
    labels = {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.7"}
    assert enforced_level(labels) == ("baseline", 7)


def test_nothing_raises_for_odd_types() -> None:
    odd: list[Any] = [None, 1, "a", [], [1], {}, {"a": []}]
    for value in odd:
        for key in ("securityContext", "containers", "volumes", "hostUsers", "os"):
            list(violations("restricted", LATEST, {"spec": {key: value}}))
            list(violations("restricted", LATEST, {"spec": {"containers": [{"securityContext": {key: value}}]}}))
        context = dict.fromkeys([*STRICT, "seLinuxOptions", "sysctls", "procMount", "runAsUser"], value)
        list(violations("restricted", LATEST, {"spec": {"containers": [value, {"securityContext": context}]}}))
        list(violations("restricted", LATEST, {"metadata": value, "spec": value}))
