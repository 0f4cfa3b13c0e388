"""A pod spec as a whole: what Kubernetes' validation of pods and pod templates says (pkg/apis/core/validation)."""

from __future__ import annotations

import ipaddress
import marshal
import re
from functools import lru_cache
from typing import Any

from compiler.kubernetes import REQUIRED
from compiler.openapi.shape import PLAIN, Flaw
from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.containers import Surroundings, containers, profiles, resources
from compiler.validation.judge import Judge, items, mapping, texts, values
from compiler.validation.selectors import expression, label_selector, labels
from compiler.validation.volumes import volumes

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_AS_WRITTEN = """
    apps batch batch.volcano.sh flow.volcano.sh grove.io jobset.x-k8s.io kubeflow.org leaderworkerset.x-k8s.io ray.io
    training.volcano.sh workload.serving.volcano.sh
"""
_IMAGES_AS_WRITTEN = frozenset(("", *_AS_WRITTEN.split()))
"""API groups whose controllers make pods of the images in the text; others fill one in."""
_MAX_NAME_SERVERS = 3
_LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
_GRACE_SECONDS = 30
"""terminationGracePeriodSeconds where a pod gives none."""
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")


def pod_flaws(pod: Any, path: FieldPath, group: str, added: frozenset[str] = frozenset()) -> tuple[Flaw, ...]:
    """The flaws of a pod spec; arguments as of `pod_spec`."""
    return _flaws_of_content(marshal.dumps(pod, PLAIN), path, group, added)


@lru_cache(maxsize=512)
def _flaws_of_content(content: bytes, path: FieldPath, group: str, added: frozenset[str]) -> tuple[Flaw, ...]:
    """By what the pod says: many jobs have the same pods."""
    judge = Judge()
    pod_spec(judge, marshal.loads(content), path, group, added)  # noqa: S302  # of this process
    return tuple(judge.flaws)


def pod_spec(
    judge: Judge, pod: dict[str, Any], path: FieldPath, group: str, added: frozenset[str] = frozenset()
) -> None:
    """A pod spec. group: the API group of the object that holds it. added: volumes that its controller adds."""
    claims = frozenset(str(claim.get("name")) for _, claim in items(pod, "resourceClaims"))
    by_webhook, needs_image = group == "batch.volcano.sh", group in _IMAGES_AS_WRITTEN
    grace = pod.get("terminationGracePeriodSeconds")
    grace = grace if isinstance(grace, int) else _GRACE_SECONDS
    around = Surroundings(volumes(judge, pod, path) | added, claims, by_webhook, needs_image, grace)
    if not pod.get("containers"):
        judge.missing((*path, "containers"))
    containers(judge, pod, path, around)
    resources(judge, pod.get("resources"), (*path, "resources"))
    _pod_resources(judge, pod, (*path, "resources"))
    _names(judge, pod, path)
    judge.within((*path, "activeDeadlineSeconds"), pod.get("activeDeadlineSeconds"), 1, 2**31 - 1)
    tolerations(judge, pod, path)
    _node_affinity(judge, mapping(pod, "affinity", "nodeAffinity"), (*path, "affinity", "nodeAffinity"))
    for key in ("podAffinity", "podAntiAffinity"):
        _pod_affinity(judge, mapping(pod, "affinity", key), (*path, "affinity", key))
    _spread(judge, pod, path)
    _security(judge, pod, path)
    _network(judge, pod, path)


def _pod_resources(judge: Judge, pod: dict[str, Any], path: FieldPath) -> None:
    """Resources of the pod as a whole: cpu, memory and huge pages only."""
    whole = mapping(pod, "resources")
    if whole.get("claims"):
        judge.contradiction((*path, "claims"), "a pod as a whole claims nothing", "let a container name the claim")
    sections = {name: section for section in ("limits", "requests") for name in mapping(whole, section)}
    for name, section in sections.items():
        if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
            judge.contradiction((*path, section, name), "it is asked for by containers only", "move it there")


def _names(judge: Judge, pod: dict[str, Any], path: FieldPath) -> None:
    judge.choice((*path, "restartPolicy"), pod.get("restartPolicy"), ("Always", "OnFailure", "Never"))
    judge.choice((*path, "preemptionPolicy"), pod.get("preemptionPolicy"), ("Never", "PreemptLowerPriority"))
    judge.choice((*path, "os", "name"), mapping(pod, "os").get("name"), ("linux", "windows"))
    for key in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        judge.name((*path, key), pod.get(key), names.DNS_SUBDOMAIN)
    for key in ("hostname", "subdomain"):
        judge.name((*path, key), pod.get(key), names.DNS_LABEL)
    labels(judge, mapping(pod, "nodeSelector"), (*path, "nodeSelector"))
    seen: set[str] = set()
    for number, gate in items(pod, "schedulingGates"):
        at = (*path, "schedulingGates", number, "name")
        judge.name(at, gate.get("name"), names.QUALIFIED, required=True)
        judge.unique(at, gate.get("name"), seen, "scheduling gate")
    if seen and pod.get("nodeName"):
        judge.contradiction(
            (*path, "nodeName"), "a pod behind schedulingGates has no node yet", "remove one of the two"
        )
    for number, gate in items(pod, "readinessGates"):
        at = (*path, "readinessGates", number, "conditionType")
        judge.name(at, gate.get("conditionType"), names.QUALIFIED, required=True)
    claims: set[str] = set()
    for number, claim in items(pod, "resourceClaims"):
        at = (*path, "resourceClaims", number)
        judge.name((*at, "name"), claim.get("name"), names.DNS_LABEL, required=True)
        judge.unique((*at, "name"), claim.get("name"), claims, "claim name")
        if (claim.get("resourceClaimName") is None) == (claim.get("resourceClaimTemplateName") is None):
            what = "not exactly one source is given"
            judge.contradiction(at, what, "give one of resourceClaimName and resourceClaimTemplateName")
        for key in ("resourceClaimName", "resourceClaimTemplateName"):
            judge.name((*at, key), claim.get(key), names.DNS_SUBDOMAIN)


def tolerations(judge: Judge, pod: dict[str, Any], path: FieldPath) -> None:
    """The tolerations of a pod spec, or of what an operator makes one of."""
    for number, row in items(pod, "tolerations"):
        at = (*path, "tolerations", number)
        key, operator, value = row.get("key"), row.get("operator"), row.get("value")
        judge.name((*at, "key"), key, names.QUALIFIED)
        judge.choice((*at, "operator"), operator, ("Exists", "Equal"))
        judge.choice((*at, "effect"), row.get("effect"), _EFFECTS)
        if not key and operator != "Exists":
            judge.contradiction(at, "without a key the operator is Exists", "write operator: Exists, or a key")
        if operator == "Exists" and value:
            judge.contradiction((*at, "value"), "Exists takes no value", "remove it, or write operator: Equal")
        if operator in ("Equal", "", None):
            judge.name((*at, "value"), value, names.LABEL_VALUE)
        if row.get("tolerationSeconds") is not None and row.get("effect") != "NoExecute":
            what = "tolerationSeconds belongs to the effect NoExecute"
            judge.contradiction((*at, "tolerationSeconds"), what, "remove it, or write effect: NoExecute")


def _node_affinity(judge: Judge, data: dict[str, Any], path: FieldPath) -> None:
    required = data.get(REQUIRED)
    if isinstance(required, dict):
        at = (*path, REQUIRED, "nodeSelectorTerms")
        if not required.get("nodeSelectorTerms"):
            judge.missing(at, "add a term, or remove the affinity")
        for number, term in items(required, "nodeSelectorTerms"):
            _node_term(judge, term, (*at, number))
    for number, row in items(data, _PREFERRED):
        at = (*path, _PREFERRED, number)
        _weight(judge, row, at)
        _node_term(judge, mapping(row, "preference"), (*at, "preference"))


def _weight(judge: Judge, row: dict[str, Any], path: FieldPath) -> None:
    if row.get("weight") is None:
        judge.missing((*path, "weight"), "add it, 1 to 100")
    judge.within((*path, "weight"), row.get("weight"), 1, 100)


def _node_term(judge: Judge, term: dict[str, Any], path: FieldPath) -> None:
    for number, row in items(term, "matchExpressions"):
        expression(judge, row, (*path, "matchExpressions", number), _NODE_OPERATORS)
    for number, row in items(term, "matchFields"):
        at = (*path, "matchFields", number)
        judge.choice((*at, "key"), row.get("key"), ("metadata.name",))
        judge.choice((*at, "operator"), row.get("operator"), ("In", "NotIn"))
        if len(values(row, "values")) != 1:
            judge.contradiction((*at, "values"), "a field is compared with one value", "give one")
        for which, value in texts(row, "values"):
            judge.name((*at, "values", which), value, names.DNS_SUBDOMAIN)


def _pod_affinity(judge: Judge, data: dict[str, Any], path: FieldPath) -> None:
    for number, term in items(data, REQUIRED):
        _pod_term(judge, term, (*path, REQUIRED, number))
    for number, row in items(data, _PREFERRED):
        at = (*path, _PREFERRED, number)
        _weight(judge, row, at)
        _pod_term(judge, mapping(row, "podAffinityTerm"), (*at, "podAffinityTerm"))


def _pod_term(judge: Judge, term: dict[str, Any], path: FieldPath) -> None:
    judge.name((*path, "topologyKey"), term.get("topologyKey"), names.QUALIFIED, required=True)
    for key in ("labelSelector", "namespaceSelector"):
        label_selector(judge, term.get(key), (*path, key))
    for number, name in texts(term, "namespaces"):
        judge.name((*path, "namespaces", number), name, names.DNS_LABEL, required=True)
    _label_keys(judge, term, path, ("matchLabelKeys", "mismatchLabelKeys"))
    matched = {key for _, key in texts(term, "matchLabelKeys")}
    for number, key in texts(term, "mismatchLabelKeys"):
        if key in matched:
            judge.contradiction((*path, "mismatchLabelKeys", number), "matchLabelKeys has it too", "keep one")


def _label_keys(judge: Judge, term: dict[str, Any], path: FieldPath, fields: tuple[str, ...]) -> None:
    """Keys of labels that name none which the selector names already."""
    selector = mapping(term, "labelSelector")
    used = {*mapping(selector, "matchLabels"), *(str(row.get("key")) for _, row in items(selector, "matchExpressions"))}
    for field in fields:
        for number, key in texts(term, field):
            at = (*path, field, number)
            judge.name(at, key, names.QUALIFIED, required=True)
            if key in used:
                judge.contradiction(at, f"the labelSelector names {key} already", "remove one of the two")
        if any(True for _ in texts(term, field)) and term.get("labelSelector") is None:
            judge.contradiction((*path, field), "there is no labelSelector", "add one")


def _spread(judge: Judge, pod: dict[str, Any], path: FieldPath) -> None:
    seen: set[str] = set()
    for number, row in items(pod, "topologySpreadConstraints"):
        at = (*path, "topologySpreadConstraints", number)
        if row.get("maxSkew") is None:
            judge.missing((*at, "maxSkew"))
        judge.within((*at, "maxSkew"), row.get("maxSkew"), 1)
        judge.name((*at, "topologyKey"), row.get("topologyKey"), names.QUALIFIED, required=True)
        when = row.get("whenUnsatisfiable")
        if when in (None, ""):
            judge.missing((*at, "whenUnsatisfiable"))
        judge.choice((*at, "whenUnsatisfiable"), when, ("DoNotSchedule", "ScheduleAnyway"))
        judge.unique(at, f"{row.get('topologyKey')} {when}", seen, "pair of topologyKey and whenUnsatisfiable")
        judge.within((*at, "minDomains"), row.get("minDomains"), 1)
        if row.get("minDomains") is not None and when == "ScheduleAnyway":
            judge.contradiction((*at, "minDomains"), "it goes with DoNotSchedule only", "remove it")
        for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            judge.choice((*at, key), row.get(key), ("Honor", "Ignore"))
        label_selector(judge, row.get("labelSelector"), (*at, "labelSelector"))
        _label_keys(judge, row, at, ("matchLabelKeys",))


def _security(judge: Judge, pod: dict[str, Any], path: FieldPath) -> None:
    security, at = mapping(pod, "securityContext"), (*path, "securityContext")
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        judge.within((*at, key), security.get(key), 0, 2**31 - 1)
    for number, row in items(security, "sysctls"):
        place = (*at, "sysctls", number, "name")
        judge.name(place, row.get("name"), names.SYSCTL, required=True)
        if pod.get("hostNetwork") is True and str(row.get("name")).startswith("net."):
            judge.contradiction(place, "with hostNetwork it is the node's", "remove it")
    profiles(judge, security, at)
    for number, group in enumerate(values(security, "supplementalGroups")):
        judge.within((*at, "supplementalGroups", number), group, 0, 2**31 - 1)
    if pod.get("hostUsers") is False:
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(key) is True:
                judge.contradiction((*path, key), "hostUsers is false", "remove one of the two")
    system = mapping(pod, "os").get("name")
    if system == "linux" and security.get("windowsOptions") is not None:
        judge.contradiction((*at, "windowsOptions"), "os is linux", "remove one of the two")
    if pod.get("shareProcessNamespace") is True and pod.get("hostPID") is True:
        judge.contradiction((*path, "shareProcessNamespace"), "hostPID is set too", "remove one of the two")


def _network(judge: Judge, pod: dict[str, Any], path: FieldPath) -> None:
    judge.choice((*path, "dnsPolicy"), pod.get("dnsPolicy"), _DNS_POLICIES)
    if pod.get("dnsPolicy") == "None" and not mapping(pod, "dnsConfig").get("nameservers"):
        judge.missing((*path, "dnsConfig"), "give dnsConfig.nameservers, or another dnsPolicy")
    _dns(judge, mapping(pod, "dnsConfig"), (*path, "dnsConfig"))
    for number, alias in items(pod, "hostAliases"):
        at = (*path, "hostAliases", number)
        if not _is_address(alias.get("ip")):
            judge.contradiction((*at, "ip"), "it is not an IP address", "write one, such as 10.0.0.1")
        for which, name in texts(alias, "hostnames"):
            judge.name((*at, "hostnames", which), name, names.DNS_SUBDOMAIN, required=True)
    if pod.get("hostNetwork") is True:
        _host_network_ports(judge, pod, path)


def _dns(judge: Judge, data: dict[str, Any], path: FieldPath) -> None:
    servers = values(data, "nameservers")
    if len(servers) > _MAX_NAME_SERVERS:
        judge.contradiction((*path, "nameservers"), f"there are {len(servers)}", f"keep {_MAX_NAME_SERVERS}")
    for number, server in texts(data, "nameservers"):
        if not _is_address(server):
            judge.contradiction(
                (*path, "nameservers", number), "it is not an IP address", "write one, such as 10.0.0.1"
            )
    for number, domain in texts(data, "searches"):
        if domain != ".":
            judge.name((*path, "searches", number), domain, names.SEARCH_DOMAIN, required=True)
    for number, option in items(data, "options"):
        if not option.get("name"):
            judge.missing((*path, "options", number, "name"))


def _is_address(value: Any) -> bool:
    """Whether the API server takes it for an IP address: leading zeros pass."""
    try:
        ipaddress.ip_address(_LEADING_ZEROS.sub("", str(value)) if ":" not in str(value) else str(value))
    except ValueError:
        return False
    return True


def _host_network_ports(judge: Judge, pod: dict[str, Any], path: FieldPath) -> None:
    for number, container in items(pod, "containers"):
        for which, port in items(container, "ports"):
            host = port.get("hostPort")
            if host and host != port.get("containerPort"):
                at = (*path, "containers", number, "ports", which, "hostPort")
                judge.contradiction(at, "with hostNetwork it equals containerPort", "write the same, or leave it out")
