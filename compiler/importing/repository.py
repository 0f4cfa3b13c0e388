"""A cluster's objects as the files of a repository."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import yaml

from compiler import kubernetes as k8s
from compiler.emit.block import to_yaml
from compiler.fields.texts import natural_sort_key
from compiler.importing.node_pools import fold_nodes
from compiler.importing.other_queues import queue_kinds, translate_queues
from compiler.importing.written_form import pod_specs, written_form
from compiler.kinds.kind import kinds
from compiler.kubernetes import API_VERSION, Object, name_of, namespace_of
from compiler.run_kinds import end_of_run, run_kind_of
from compiler.specs.cluster_spec import KNOWN_MINORS, NAMESPACE_QUEUES_SINCE, VolcanoVersion
from compiler.volcano.releases import releases_of_pods
from compiler.volcano.scheduler_conf import CONF_KEY, FILE_KEYS, PLUGIN_FLAGS, conf_text_keys

Data = dict[str, Any]
_NOT_IN_PATHS = re.compile(r"[^A-Za-z0-9._-]")
CLUSTER_FILES = {
    "HyperNode.topology.volcano.sh": "hypernodes",
    "PriorityClass.scheduling.k8s.io": "priorities",
    "Queue.scheduling.volcano.sh": "queues",
    "NamespaceQueue.scheduling.volcano.sh": "queues",
    "Numatopology.nodeinfo.volcano.sh": "numatopologies",
    "ClusterTrainingRuntime.trainer.kubeflow.org": "runtimes",
}
"""Kind.group -> the file of the cluster's folder that holds its objects."""
_MAKER_KINDS = frozenset(
    {"CronJob.batch", "CronJob.batch.volcano.sh", "CronWorkflow.argoproj.io", "Workflow.argoproj.io"}
)
"""Kinds whose own objects are not planned, but those that they create by the clock or step by step."""
_CORE_GROUPS = ("", "apps", "batch")
"""Groups whose workloads most clusters hold many of that no batch scheduler places."""


@dataclass(frozen=True, slots=True)
class ImportedRepository:
    """Path -> text of each file, and the objects left out or without an equal, a sentence each."""

    files: Mapping[str, str]
    notes: tuple[str, ...]


def import_objects(objects: Iterable[k8s.Object], cluster: str, *, adopt: bool = False) -> ImportedRepository:
    """Return the repository of a cluster that holds these objects, as an API server gives them; of two with one name
    the later counts. adopt: gangplan may take fields of the objects that others own."""
    by_name = {_place_in_order(item): item for item in objects}
    items = [item for _, item in sorted(by_name.items(), key=itemgetter(0))]
    nodes = [item for item in items if run_kind_of(item) == "Node."]
    others = [item for item in items if run_kind_of(item) in queue_kinds()]
    documents: dict[str, list[Data]] = {}
    left_out: Counter[str] = Counter()
    for item in items:
        if run_kind_of(item) == "Node." or run_kind_of(item) in queue_kinds():
            continue
        if reason := _reason_to_leave_out(item):
            left_out[reason] += 1
            continue
        document = scheduler_document(item) if run_kind_of(item) == "ConfigMap." else written_form(item)
        if adopt:
            document = _with_annotation(document, k8s.ADOPT_ANNOTATION, "true")
        documents.setdefault(_file_of(item, cluster), []).append(document)
    queues = documents.setdefault(f"cluster-specs/{cluster}/queues.yaml", [])
    translated = translate_queues(others, {k8s.name_of(queue) for queue in queues if queue["kind"] == "Queue"})
    queues += translated.documents
    files = {path: _text(of_file) for path, of_file in documents.items() if of_file}
    folded = fold_nodes(nodes, "".join(files.values()))
    if folded.documents:
        files[f"cluster-specs/{cluster}/nodes.yaml"] = _text(folded.documents)
    head = {
        "apiVersion": k8s.API_VERSION,
        "kind": "Cluster",
        "metadata": {"name": cluster},
        "spec": _cluster_spec(items),
    }
    files[f"cluster-specs/{cluster}/cluster.yaml"] = _text([head])
    notes = (
        *(f"{number} left out: {reason}" for reason, number in sorted(left_out.items()) if reason != _SILENT),
        *folded.notes,
        *translated.notes,
    )
    return ImportedRepository(dict(sorted(files.items())), notes)


def _place_in_order(item: k8s.Object) -> tuple[Any, ...]:
    """By kind, namespace and name; n-7 and n-07, which are equal numbers, are two objects."""
    name = k8s.name_of(item)
    return run_kind_of(item), k8s.namespace_of(item), natural_sort_key(name), name


def _cluster_spec(items: Sequence[k8s.Object]) -> Data:
    """The release of Volcano is the one that the scheduler's pods name; else 1.16 where there are NamespaceQueues."""
    named = releases_of_pods(item for item in items if run_kind_of(item) == "Pod.")
    releases = [release for release in named if release.minor in KNOWN_MINORS]
    gate = {}
    if any(run_kind_of(item) == "NamespaceQueue.scheduling.volcano.sh" for item in items):
        gate, releases = {"namespaceQueues": True}, releases or [VolcanoVersion(NAMESPACE_QUEUES_SINCE)]
    return {"binding": "gated", **({"volcano": str(releases[-1])} if releases else {}), **gate}


# ---- which objects


_SILENT = "what Kubernetes and Volcano make for themselves"


def _reason_to_leave_out(item: k8s.Object) -> str:
    """Return why the object is not a part of a repository, empty if it is."""
    kind = run_kind_of(item)
    if k8s.is_terminating(item):
        return "objects that are being deleted"
    is_made = k8s.controller_of(item) is not None
    if _is_of_the_system(item) or (is_made and not has_unplanned_owner(item)):
        return _SILENT
    if k8s.CLUSTER_LABEL in k8s.labels_of(item):
        return "objects that gangplan applied already; their repository has them"
    if kind in CLUSTER_FILES or (run_kind_of(item) == "ConfigMap." and bool(conf_text_keys(item.get("data") or {}))):
        return ""
    if kind not in kinds() or kind == "ConfigMap.":
        return _SILENT
    if end_of_run(item) is not None or (kind == "Pod." and k8s.is_finished_pod(item)):
        return "jobs that ended"
    if k8s.api_group_of(item) in _CORE_GROUPS and not _is_for_a_queue(item):
        return _SILENT if is_made else "workloads of Kubernetes' own kinds that do not name Volcano as their scheduler"
    return "jobs that their owner creates, which gangplan does not plan" if is_made else ""


def has_unplanned_owner(item: k8s.Object) -> bool:
    """Return whether the object was created by one that is in no plan: then the created object waits and runs."""
    owner = k8s.controller_of(item)
    return owner is not None and run_kind_of(owner) not in kinds().keys() - _MAKER_KINDS


def _is_of_the_system(item: k8s.Object) -> bool:
    kind, name = run_kind_of(item), k8s.name_of(item)
    if kind == "PriorityClass.scheduling.k8s.io":
        return name.startswith("system-")
    if kind == "Queue.scheduling.volcano.sh":
        return name in (k8s.ROOT_QUEUE, k8s.DEFAULT_QUEUE) and not _has_settings(item)
    return (item["metadata"].get("namespace") or "") in k8s.SYSTEM_NAMESPACES


def _has_settings(queue: k8s.Object) -> bool:
    """Return whether somebody gave the queue that Volcano makes a limit, or anything else: root is not reclaimable
    anyway."""
    return bool((written_form(queue).get("spec") or {}).keys() - {"reclaimable"})


def _is_for_a_queue(item: k8s.Object) -> bool:
    named = any(pod.get("schedulerName") == k8s.VOLCANO_SCHEDULER for pod in pod_specs(item))
    return named or k8s.KUEUE_QUEUE_LABEL in k8s.labels_of(item)


# ---- where they go


def _file_of(item: k8s.Object, cluster: str) -> str:
    kind = run_kind_of(item)
    if kind == "ConfigMap.":
        return f"cluster-specs/{cluster}/scheduler.yaml"
    if kind in CLUSTER_FILES:
        return f"cluster-specs/{cluster}/{CLUSTER_FILES[kind]}.yaml"
    return f"jobs/{_part(k8s.namespace_of(item))}/{_part(str(item['kind']).lower())}-{_part(k8s.name_of(item))}.yaml"


def _part(name: str) -> str:
    """Return a name as part of a path. An API server gives no others; a file that somebody wrote may name
    ../../.bashrc."""
    return _NOT_IN_PATHS.sub("-", name).lstrip(".") or "-"


def _with_annotation(document: Data, key: str, value: str) -> Data:
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), key: value}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def _text(documents: Sequence[Data]) -> str:
    return "---\n".join(map(to_yaml, documents))


def scheduler_document(config_map: Object) -> dict[str, Any]:
    """Return the configuration with types; the unchanged ConfigMap if types would lose contents, so that `gangplan
    check` shows how Volcano reads it."""
    conf = _parsed(str((config_map.get("data") or {}).get(CONF_KEY)))
    if conf is None:
        return written_form(config_map)
    metadata = {"name": name_of(config_map), "namespace": namespace_of(config_map)}
    spec = {**conf, "actions": [action.strip() for action in conf["actions"].split(",")]}
    return {"apiVersion": API_VERSION, "kind": "SchedulerConfiguration", "metadata": metadata, "spec": spec}


def _parsed(text: str) -> dict[str, Any] | None:
    """Return the configuration, None where it holds something that Volcano ignores or reads as something else."""
    try:
        conf = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    if not isinstance(conf, dict) or not conf.keys() <= {*FILE_KEYS} or not isinstance(conf.get("actions"), str):
        return None
    tiers = conf.get("tiers")
    is_typed = isinstance(tiers, list) and all(isinstance(tier, dict) and _is_tier(tier) for tier in tiers)
    return conf if is_typed else None


def _is_tier(tier: dict[str, Any]) -> bool:
    plugins = tier.get("plugins")
    return tier.keys() == {"plugins"} and isinstance(plugins, list) and all(map(_is_plugin, plugins))


def _is_plugin(plugin: Any) -> bool:
    if not isinstance(plugin, dict) or not isinstance(plugin.get("name"), str):
        return False
    flags = plugin.keys() - {"name", "arguments"}
    has_flags = flags <= {*PLUGIN_FLAGS} and all(isinstance(plugin[flag], bool) for flag in flags)
    return has_flags and isinstance(plugin.get("arguments", {}), dict)
