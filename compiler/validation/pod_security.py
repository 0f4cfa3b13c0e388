"""Pod Security Standards as PodSecurity admission holds them (k8s.io/pod-security-admission 0.35): which pods a
namespace takes that enforces a level of them, by its labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from compiler.kubernetes import SECCOMP_POD_ANNOTATION
from compiler.syntax.documents import FieldPath
from compiler.validation.judge import items, mapping, texts, volume_sources

Level = Literal["privileged", "baseline", "restricted"]
LEVELS: tuple[Level, ...] = get_args(Level)
PREFIX = "pod-security.kubernetes.io/"
ENFORCE, ENFORCE_VERSION = f"{PREFIX}enforce", f"{PREFIX}enforce-version"
MODES = tuple(f"{PREFIX}{mode}{what}" for mode in ("enforce", "audit", "warn") for what in ("", "-version"))
LATEST = 10**6
"""Above every minor version: the newest rules."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a pod breaks. places: the fields, below the pod template."""

    what: str
    help: str
    places: tuple[FieldPath, ...]


def label_objection(key: str, value: str) -> str | None:
    """Why the API server refuses a namespace for this label of Pod Security; None where it does not."""
    if key.endswith("-version"):
        return None if _minor_version(value) is not None else "write latest, or like v1.35"
    return None if value in LEVELS else f"the levels are {', '.join(LEVELS)}"


def enforced_level(labels: Mapping[str, Any]) -> tuple[Level, int]:
    """The level that a namespace with valid labels enforces, and the minor version of its rules."""
    version = _minor_version(str(labels.get(ENFORCE_VERSION, "latest")))
    return cast(Level, labels.get(ENFORCE, "privileged")), LATEST if version is None else version


def _minor_version(text: str) -> int | None:
    if text == "latest":
        return LATEST
    minor = text.removeprefix("v1.")
    is_version = text.startswith("v1.") and minor.isascii() and minor.isdigit() and str(int(minor)) == minor
    return int(minor) if is_version else None


def violations(level: Level, minor: int, template: Any) -> Iterator[Violation]:
    """What in a pod template (metadata and spec) breaks the rules of a level."""
    pod = _Pod(mapping(template, "metadata", "annotations"), mapping(template, "spec"), minor)
    for rule in _RULES:
        if rule.applies(level, pod) and (places := tuple(rule.places(pod))):
            yield Violation(rule.what, rule.help, places)


def privileged_places(template: Any) -> tuple[FieldPath, ...]:
    """Where a pod template makes a container privileged."""
    return tuple(_privilege_paths(_Pod({}, mapping(template, "spec"), LATEST)))


@dataclass(frozen=True, slots=True)
class _Pod:
    """A pod and the minor version of the rules by which it is judged."""

    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]
    minor: int

    @property
    def is_windows(self) -> bool:
        return bool(mapping(self.spec, "os").get("name") == "windows")

    @property
    def is_user_namespaced(self) -> bool:
        return self.spec.get("hostUsers") is False

    def containers(self) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
        for key in ("initContainers", "containers", "ephemeralContainers"):
            for number, container in items(self.spec, key):
                yield ("spec", key, number), container

    def security_contexts(self) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
        """The security contexts of the pod and of its containers, also where there is none."""
        yield ("spec", "securityContext"), mapping(self.spec, "securityContext")
        yield from self.container_contexts()

    def container_contexts(self) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
        for path, container in self.containers():
            yield (*path, "securityContext"), mapping(container, "securityContext")


Places = Callable[[_Pod], Iterator[FieldPath]]


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule of a level. since: the first minor version that has it. until: the first minor version of the restricted
    level in which a stricter rule stands in its place. spares_windows, spares_user_namespaces: the minor version from
    which such pods are spared."""

    what: str
    help: str
    level: Level
    places: Places
    since: int = 0
    until: int = LATEST + 1
    spares_windows: int = LATEST + 1
    spares_user_namespaces: int = LATEST + 1

    def applies(self, level: Level, pod: _Pod) -> bool:
        if level == "privileged" or (self.level == "restricted" and level == "baseline") or pod.minor < self.since:
            return False
        if level == "restricted" and pod.minor >= self.until:
            return False
        if pod.minor >= self.spares_windows and pod.is_windows:
            return False
        return not (pod.minor >= self.spares_user_namespaces and pod.is_user_namespaced)


def _host_namespaces(pod: _Pod) -> Iterator[FieldPath]:
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(key) is True:
            yield "spec", key


def _privilege_paths(pod: _Pod) -> Iterator[FieldPath]:
    for path, context in pod.container_contexts():
        if context.get("privileged") is True:
            yield *path, "privileged"


_DEFAULT_CAPABILITIES = """
    AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT
"""


def _added_capabilities(allowed: str) -> Places:
    names = frozenset(allowed.split())

    def places(pod: _Pod) -> Iterator[FieldPath]:
        for path, context in pod.container_contexts():
            for number, name in texts(mapping(context, "capabilities"), "add"):
                if name not in names:
                    yield *path, "capabilities", "add", number

    return places


def _kept_capabilities(pod: _Pod) -> Iterator[FieldPath]:
    for path, context in pod.container_contexts():
        if "ALL" not in [name for _, name in texts(mapping(context, "capabilities"), "drop")]:
            yield *path, "capabilities", "drop"


def _host_paths(pod: _Pod) -> Iterator[FieldPath]:
    for number, volume in items(pod.spec, "volumes"):
        if volume.get("hostPath") is not None:
            yield "spec", "volumes", number, "hostPath"


_VOLUMES = "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret"


def _other_volumes(pod: _Pod) -> Iterator[FieldPath]:
    for number, volume in items(pod.spec, "volumes"):
        sources = volume_sources(volume)
        if sources and not set(_VOLUMES.split()).intersection(sources):
            yield "spec", "volumes", number, sources[0]


def _host_ports(pod: _Pod) -> Iterator[FieldPath]:
    for path, container in pod.containers():
        for number, port in items(container, "ports"):
            if port.get("hostPort"):
                yield *path, "ports", number, "hostPort"


def _hosts_of_probes(pod: _Pod) -> Iterator[FieldPath]:
    handlers = [(key,) for key in ("livenessProbe", "readinessProbe", "startupProbe")]
    for path, container in pod.containers():
        for at in (*handlers, ("lifecycle", "postStart"), ("lifecycle", "preStop")):
            for how in ("httpGet", "tcpSocket"):
                if mapping(container, *at, how).get("host"):
                    yield *path, *at, how, "host"


_APPARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"


def _app_armor(pod: _Pod) -> Iterator[FieldPath]:
    for path, context in pod.security_contexts():
        profile = mapping(context, "appArmorProfile")
        if profile.get("type", "RuntimeDefault") not in ("RuntimeDefault", "Localhost"):
            yield *path, "appArmorProfile", "type"
    for key, value in pod.annotations.items():
        is_fine = value in ("", "runtime/default") or str(value).startswith("localhost/")
        if str(key).startswith(_APPARMOR_PREFIX) and not is_fine:
            yield "metadata", "annotations", key


_ENGINE_TYPE_SINCE = 31


def _selinux(pod: _Pod) -> Iterator[FieldPath]:
    types = ["", "container_t", "container_init_t", "container_kvm_t"]
    types += ["container_engine_t"] if pod.minor >= _ENGINE_TYPE_SINCE else []
    for path, context in pod.security_contexts():
        options = mapping(context, "seLinuxOptions")
        if (options.get("type") or "") not in types:
            yield *path, "seLinuxOptions", "type"
        for key in ("user", "role"):
            if options.get(key):
                yield *path, "seLinuxOptions", key


def _proc_mounts(pod: _Pod) -> Iterator[FieldPath]:
    for path, context in pod.container_contexts():
        if context.get("procMount") not in (None, "Default"):
            yield *path, "procMount"


_SECCOMP_FIELD_SINCE = 19
_SECCOMP_PREFIX = "container.seccomp.security.alpha.kubernetes.io/"


def _seccomp(pod: _Pod) -> Iterator[FieldPath]:
    """Profiles that are written and not allowed: annotations before the field came."""
    if pod.minor >= _SECCOMP_FIELD_SINCE:
        yield from _bad_seccomp_profiles(pod)
        return
    names = [
        SECCOMP_POD_ANNOTATION,
        *(f"{_SECCOMP_PREFIX}{container.get('name')}" for _, container in pod.containers()),
    ]
    for key in names:
        value = str(pod.annotations.get(key, "runtime/default"))
        if value not in ("runtime/default", "docker/default") and not value.startswith("localhost/"):
            yield "metadata", "annotations", key


def _has_good_profile(context: Mapping[str, Any]) -> bool:
    return mapping(context, "seccompProfile").get("type") in ("RuntimeDefault", "Localhost")


def _bad_seccomp_profiles(pod: _Pod) -> Iterator[FieldPath]:
    for path, context in pod.security_contexts():
        if isinstance(context.get("seccompProfile"), dict) and not _has_good_profile(context):
            yield *path, "seccompProfile", "type"


def _missing_seccomp(pod: _Pod) -> Iterator[FieldPath]:
    bad = list(_bad_seccomp_profiles(pod))
    yield from bad
    if bad or _has_good_profile(mapping(pod.spec, "securityContext")):
        return
    for path, context in pod.container_contexts():
        if not _has_good_profile(context):
            yield *path, "seccompProfile", "type"


_SYSCTLS: tuple[tuple[int, str], ...] = (
    (0, "kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.tcp_syncookies net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time net.ipv4.tcp_fin_timeout net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem net.ipv4.tcp_wmem"),
)
"""Since which minor version of the rules they are safe."""


def _sysctls(pod: _Pod) -> Iterator[FieldPath]:
    safe = " ".join(names for since, names in _SYSCTLS if pod.minor >= since).split()
    for number, sysctl in items(mapping(pod.spec, "securityContext"), "sysctls"):
        if str(sysctl.get("name")) not in safe:
            yield "spec", "securityContext", "sysctls", number, "name"


def _host_process(pod: _Pod) -> Iterator[FieldPath]:
    for path, context in pod.security_contexts():
        if mapping(context, "windowsOptions").get("hostProcess") is True:
            yield *path, "windowsOptions", "hostProcess"


def _escalation(pod: _Pod) -> Iterator[FieldPath]:
    for path, context in pod.container_contexts():
        if context.get("allowPrivilegeEscalation") is not False:
            yield *path, "allowPrivilegeEscalation"


def _root(pod: _Pod) -> Iterator[FieldPath]:
    bad = [(*path, "runAsNonRoot") for path, context in pod.security_contexts() if context.get("runAsNonRoot") is False]
    yield from bad
    if bad or mapping(pod.spec, "securityContext").get("runAsNonRoot") is True:
        return
    for path, context in pod.container_contexts():
        if context.get("runAsNonRoot") is not True:
            yield *path, "runAsNonRoot"


def _user_0(pod: _Pod) -> Iterator[FieldPath]:
    for path, context in pod.security_contexts():
        if (user := context.get("runAsUser")) == 0 and user is not False:
            yield *path, "runAsUser"


_RULES = (
    _Rule("the host's namespaces are used", "remove it", "baseline", _host_namespaces),
    _Rule("a container is privileged", "remove privileged: true", "baseline", _privilege_paths),
    _Rule(
        "capabilities are added that containers do not have by default",
        "remove them",
        "baseline",
        _added_capabilities(_DEFAULT_CAPABILITIES),
        until=22,
    ),
    _Rule("a volume is a path of the node", "use another volume", "baseline", _host_paths, until=0),
    _Rule("a port of the node is taken", "remove hostPort", "baseline", _host_ports),
    _Rule("a probe or hook names a host", "remove host", "baseline", _hosts_of_probes, since=34),
    _Rule("the AppArmor profile is not allowed", "write RuntimeDefault or Localhost", "baseline", _app_armor),
    _Rule("SELinux options are not allowed", "remove user and role, and other types", "baseline", _selinux),
    _Rule(
        "procMount is not Default",
        "remove it",
        "baseline",
        _proc_mounts,
        until=35,
        spares_user_namespaces=35,
    ),
    _Rule("procMount is not Default", "remove it", "restricted", _proc_mounts, since=35),
    _Rule("the seccomp profile is not allowed", "write RuntimeDefault or Localhost", "baseline", _seccomp, until=19),
    _Rule("sysctls are set that are not safe", "remove them", "baseline", _sysctls),
    _Rule("a container is a process of the host", "remove hostProcess", "baseline", _host_process),
    _Rule(
        "a volume is of a type that is not allowed",
        "use an emptyDir, a configMap, a secret or a persistentVolumeClaim",
        "restricted",
        _other_volumes,
    ),
    _Rule(
        "containers may gain privileges",
        "write allowPrivilegeEscalation: false",
        "restricted",
        _escalation,
        since=8,
        spares_windows=25,
    ),
    _Rule(
        "containers may run as root",
        "write runAsNonRoot: true into the pod's securityContext",
        "restricted",
        _root,
        spares_user_namespaces=35,
    ),
    _Rule("user 0 is root", "use another user", "restricted", _user_0, since=23, spares_user_namespaces=35),
    _Rule(
        "there is no seccomp profile, or one that is not allowed",
        "write seccompProfile: {type: RuntimeDefault} into the pod's securityContext",
        "restricted",
        _missing_seccomp,
        since=19,
        spares_windows=25,
    ),
    _Rule(
        "capabilities are added",
        "remove all but NET_BIND_SERVICE",
        "restricted",
        _added_capabilities("NET_BIND_SERVICE"),
        since=22,
        spares_windows=25,
    ),
    _Rule(
        "containers keep capabilities",
        "write capabilities: {drop: [ALL]}",
        "restricted",
        _kept_capabilities,
        since=22,
        spares_windows=25,
    ),
)
