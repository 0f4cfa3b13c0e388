"""A cluster, its scheduler's configuration, and everything read for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.repository.kustomize import NOT_BUILT
from compiler.repository.paths import CLUSTERS_FOLDER
from compiler.specs.gang_spec import GangSpec, UnplannedPods
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.specs.queue_spec import PriorityClassSpec, QueueSpec
from compiler.syntax.documents import Document

QuotaOrder = Literal["queues-first", "priorities-first"]
ServiceBinding = Literal["on-request", "devices", "all"]
"""Services that are bound: those that name Volcano, a queue or a gang; also those that request devices; all."""


class VolcanoVersion(NamedTuple):
    """A release of Volcano 1.x. patch: None where the Cluster does not name it."""

    minor: int
    patch: int | None = None

    @classmethod
    def of_text(cls, text: str) -> VolcanoVersion:
        """Return the release of a text such as 1.15 or 1.15.2."""
        _, minor, *patch = map(int, text.split("."))
        return cls(minor, *patch)

    def as_known(self) -> VolcanoVersion:
        """Return the release, or the nearest one whose rules are known."""
        nearest = min(max(self.minor, KNOWN_MINORS[0]), KNOWN_MINORS[-1])
        return self if nearest == self.minor else VolcanoVersion(nearest)

    def __str__(self) -> str:
        return f"1.{self.minor}" if self.patch is None else f"1.{self.minor}.{self.patch}"


KNOWN_MINORS = (15, 16)
"""The minor versions of Volcano 1.x whose rules are known."""
FIRST_RELEASE = VolcanoVersion(15)
"""The first release that gangplan knows, assumed for a cluster of unknown release."""
ReleaseIn = Callable[[str], VolcanoVersion | None]
"""Namespace -> the release whose scheduler runs in it; None where that is not known."""


def unknown_release(namespace: str) -> None:
    """Return the release of a cluster that is not examined."""


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """A plugin of a scheduler tier: its arguments and its enable... flags."""

    name: str
    arguments: Mapping[str, Any]
    flags: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class SchedulerSpec:
    """volcano-scheduler.conf, from a SchedulerConfiguration, a raw ConfigMap, a file, or the values of a Helm chart.

    name, namespace: the ConfigMap's. configurations: of each action the one that counts, its first.
    configuration_entries: all of them, with their place in the list. raw_text: the file as Volcano reads it, None for a
    SchedulerConfiguration. base_path: of actions, tiers and so on in the document, whose positions include a raw text.
    custom_plugins: plugin of a vendor's build -> argument -> type (int, float, bool, string). is_emitted: false where
    another tool makes the ConfigMap. is_partial: some of it cannot be read, so that nothing may be called missing.
    """

    document: Document
    name: str
    namespace: str
    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginSpec, ...], ...]
    configurations: Mapping[str, Mapping[str, Any]]
    metrics: Mapping[str, str] = field(default_factory=dict)
    raw_text: str | None = None
    base_path: tuple[str | int, ...] = ("spec",)
    custom_plugins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    configuration_entries: tuple[tuple[int, str, Mapping[str, Any]], ...] = ()
    is_emitted: bool = True
    is_partial: bool = False

    @property
    def plugins(self) -> Iterator[PluginSpec]:
        """Return the plugins of all tiers."""
        return chain.from_iterable(self.tiers)

    def plugin(self, name: str) -> PluginSpec | None:
        """Return the plugin of this name; of one that is listed twice the first counts. None where it is not listed."""
        return next((plugin for plugin in self.plugins if plugin.name == name), None)


NAMESPACE_QUEUES_SINCE = 16
"""The first minor version of Volcano with NamespaceQueues."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The Cluster object, or an empty one of the folder's name at its first line, which is not in `Specs.documents`.

    gap: relative MIP gap at which an objective may stop; 0 requires a proof. time_limit: seconds, the last safety.
    patience: seconds after which a waiting job is overdue and precedes the others of its priority. order: whether
    queues' entitlements or jobs' priorities are first. unplanned: whether declared pods that no plan places take room
    in the plan. services: which services are bound to the plan's nodes. allow_privileged: whether the API server takes
    privileged containers; None: undeclared, which counts as yes. scheduler_plugins: plugin of a
    vendor's build -> argument -> type. scheduler_actions: of such a build. volcano: the release that the cluster runs,
    and whether the Cluster object names it. namespace_queues: whether its feature gate NamespaceQueue is on.
    """

    document: Document
    name: str
    binding: Literal["gated", "static"] = "gated"
    default_queue: str = "default"
    gap: float = 0.0
    time_limit: float = 60.0
    max_waiting_pods: int = 1000
    patience: int = 86_400
    order: QuotaOrder = "queues-first"
    unplanned: Literal["reserve", "ignore"] = "ignore"
    services: ServiceBinding = "devices"
    allow_privileged: bool | None = None
    scheduler_plugins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    scheduler_actions: tuple[str, ...] = ()
    volcano: VolcanoVersion = FIRST_RELEASE
    names_volcano: bool = False
    namespace_queues: bool = False

    @property
    def is_release_assumed(self) -> bool:
        """Return whether neither the Cluster nor its scheduler names the release of Volcano."""
        return not self.names_volcano and self.volcano == FIRST_RELEASE

    @property
    def has_namespace_queues(self) -> bool:
        """Return whether its release has NamespaceQueues, and the gate is on."""
        return self.namespace_queues and self.volcano.minor >= NAMESPACE_QUEUES_SINCE


@dataclass(frozen=True, slots=True)
class Specs:
    """Everything read for one cluster, each tuple sorted by (namespace, name, kind), nodes and hypernodes naturally by
    name.

    documents: all well-formed documents, of any kind. A document with an error is in no tuple but this one.
    """

    cluster: ClusterSpec
    documents: tuple[Document, ...]
    gangs: tuple[GangSpec, ...]
    queues: tuple[QueueSpec, ...]
    priority_classes: tuple[PriorityClassSpec, ...]
    nodes: tuple[NodeSpec, ...]
    hypernodes: tuple[HyperNodeSpec, ...]
    scheduler: SchedulerSpec | None
    diagnostics: tuple[Diagnostic, ...]
    unplanned_pods: tuple[UnplannedPods, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Return whether parts of the cluster may be missing, for errors in its files or a kustomization not built."""
        return any(
            found.position.file.startswith(f"{CLUSTERS_FOLDER}/")
            and (found.severity == "error" or found.code == NOT_BUILT.code)
            for found in self.diagnostics
        )
