"""Argo's Workflow and CronWorkflow (argoproj.io/v1alpha1): steps in order, each a pod or an object that it creates.

The controller makes the pods of a step when the step before is over, so that none is bound. Room is kept for the widest
step: of all that run side by side the one that asks for the most devices, then cpu. What its objects of known kinds run
counts like pods. A step that repeats by a parameter counts once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from pydantic import Field, ValidationError

from compiler.fields.models import Bool, LenientModel
from compiler.fields.validation import without_nulls
from compiler.kinds import Kind, kinds
from compiler.kinds.common import pods
from compiler.kinds.common.job_kinds import KindObject
from compiler.kinds.common.jobs import submission_and_duration, time_diagnostics
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.specs import GangSpec, RoleSpec
from compiler.specs.services import ServiceDraft, unbound
from compiler.syntax.documents import Document, FieldPath

GROUP = "argoproj.io"
_CREATING = ("create", "apply", "replace")
_MAX_REPEATS = 10_000


class Repeated(LenientModel):
    """A step or a task, and how often it runs side by side."""

    name: str = ""
    template: str | None = None
    with_items: list[Any] | None = None
    with_sequence: dict[str, Any] | None = None
    dependencies: list[str] | None = None
    depends: str | None = None

    @property
    def repeats(self) -> int:
        if self.with_items is not None:
            return len(self.with_items)
        count = str((self.with_sequence or {}).get("count", 1))
        return min(int(count), _MAX_REPEATS) if count.isascii() and count.isdigit() and len(count) < 9 else 1


class Dag(LenientModel):
    tasks: list[Repeated] = Field(default_factory=list)


class ContainerSet(LenientModel):
    containers: list[pods.Container] = Field(default_factory=list)


class Resource(LenientModel):
    action: str = ""
    manifest: str | None = None


class Template(LenientModel):
    name: str = ""
    container: pods.Container | None = None
    script: pods.Container | None = None
    container_set: ContainerSet | None = None
    resource: Resource | None = None
    steps: list[Any] | None = None
    dag: Dag | None = None
    metadata: pods.TemplateMetadata | None = None
    init_containers: list[pods.Container] | None = None
    sidecars: list[pods.Container] | None = None
    node_selector: dict[str, str] | None = None
    affinity: pods.Affinity | None = None
    tolerations: list[pods.TolerationModel] | None = None
    scheduler_name: str | None = None


class Spec(LenientModel):
    entrypoint: str | None = None
    templates: list[Template] | None = None
    suspend: Bool | None = None
    scheduler_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: pods.Affinity | None = None
    tolerations: list[pods.TolerationModel] | None = None
    pod_priority_class_name: str | None = None


class Workflow(KindObject):
    spec: Spec


class CronSpec(LenientModel):
    workflow_spec: Spec
    suspend: Bool | None = None


class CronWorkflow(KindObject):
    spec: CronSpec


def _workflow(document: Document, model: Workflow) -> Iterable[GangSpec]:
    yield from _gangs(document, model.spec, ("spec",))


def _cron_workflow(document: Document, model: CronWorkflow) -> Iterable[GangSpec]:
    spec = model.spec.workflow_spec.model_copy(update={"suspend": model.spec.suspend})
    for gang in _gangs(document, spec, ("spec", "workflowSpec")):
        yield replace(gang, is_recurring=True)


def _gangs(document: Document, spec: Spec, path: FieldPath) -> Iterator[GangSpec]:
    """The gang of a workflow that runs pods: those of its widest step, and none of the others."""
    steps = _Steps(document, spec, path)
    widest = steps.widest(spec.entrypoint or "", ())
    found = [(steps.leaves[name], widest[name]) for name in steps.reached if name in steps.leaves]
    roles = [replace(role, replicas=role.replicas * count) for leaf, count in found for role in leaf.roles]
    if not roles:
        return
    queues = {leaf.queue for leaf, count in found if count}
    queue = queues.pop() if len(queues) == 1 else ""
    submitted, expected = submission_and_duration(document)
    gang = GangSpec(
        document=document,
        queue=queue,
        priority_class=spec.pod_priority_class_name,
        minimum=0,
        roles=tuple(roles),
        submitted_at=submitted,
        expected_duration=expected,
        field_paths={"queue": roles[0].path, "minimum": (*path, "entrypoint"), "priority_class": path},
        scheduler_name=VOLCANO_SCHEDULER if queue else "",
    )
    yield replace(gang, schedulable=False) if spec.suspend else unbound(gang)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """What a template without steps runs; queue: of the objects that it creates."""

    roles: tuple[RoleSpec, ...]
    queue: str = ""


@dataclass
class _Steps:
    """The templates of a workflow. leaves: by name. reached: names of templates that run, in the order of the walk."""

    document: Document
    spec: Spec
    path: FieldPath
    leaves: dict[str, _Leaf] = field(default_factory=dict)
    reached: dict[str, None] = field(default_factory=dict)
    known: dict[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.templates = {each.name: (at, each) for at, each in enumerate(self.spec.templates or ())}

    def widest(self, name: str, above: tuple[str, ...]) -> Counter[str]:
        """Leaf -> how many of it run side by side at the most. A template that runs itself counts once."""
        if name in self.known:
            return self.known[name]
        if name not in self.templates or name in above:
            return Counter()
        self.reached[name] = None
        at, template = self.templates[name]
        if template.steps is None and template.dag is None:
            if (leaf := self._leaf(template, (*self.path, "templates", at))) is not None:
                self.leaves[name] = leaf
            found = Counter({name: 1})
        else:
            sums = (self._sum(stage, (*above, name)) for stage in _stages(template))
            found = max(sums, key=self._weight, default=Counter())
        self.known[name] = found
        return found

    def _sum(self, stage: Sequence[Repeated], above: tuple[str, ...]) -> Counter[str]:
        total: Counter[str] = Counter()
        for step in stage:
            for name, count in self.widest(step.template or "", above).items():
                total[name] += count * step.repeats
        return total

    def _weight(self, counts: Mapping[str, int]) -> tuple[int, int, int]:
        """Devices, cpu, pods."""
        devices = cpu = number = 0
        for name, count in counts.items():
            for role in self.leaves[name].roles if name in self.leaves else ():
                requests, all_pods = role.pod.requests, role.replicas * count
                devices += all_pods * sum(amount for key, amount in requests.items() if "/" in key)
                cpu, number = cpu + all_pods * requests.get("cpu", 0), number + all_pods
        return devices, cpu, number

    def _leaf(self, template: Template, path: FieldPath) -> _Leaf | None:
        if template.resource is not None:
            return self._created(template, (*path, "resource"))
        containers = [each for each in (template.container, template.script) if each is not None]
        containers += template.container_set.containers if template.container_set else []
        if not containers:
            return None
        spec = self.spec
        others = {
            "init_containers": template.init_containers,
            "node_selector": {**(spec.node_selector or {}), **(template.node_selector or {})},
            "affinity": template.affinity or spec.affinity,
            "tolerations": [*(spec.tolerations or ()), *(template.tolerations or ())],
            "scheduler_name": template.scheduler_name or spec.scheduler_name,
        }
        told = pods.PodSpecModel(containers=[*containers, *(template.sidecars or ())]).model_copy(update=others)
        pod = pods.PodTemplate(metadata=template.metadata, spec=told)
        role = pods.role_spec(template.name, 1, 0, pod, path)
        return _Leaf((replace(role, template_path=()),))

    def _created(self, template: Template, path: FieldPath) -> _Leaf | None:
        """What an object of a known kind runs; None of one that cannot be read, by its parameters for example."""
        resource = template.resource or Resource()
        if resource.action not in _CREATING or not (gang := _embedded_gang(self.document, resource.manifest)):
            return None
        roles = (
            replace(role, name=f"{template.name}-{role.name}", path=path, template_path=(), minimum=0)
            for role in gang.roles
        )
        return _Leaf(tuple(roles), gang.queue or ("default" if gang.scheduler_name == VOLCANO_SCHEDULER else ""))


def _embedded_gang(document: Document, manifest: str | None) -> GangSpec | None:
    try:
        data = yaml.safe_load(manifest or "")
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not isinstance(data.get("spec"), dict):
        return None
    version, name = str(data.get("apiVersion", "")), str(data.get("kind", ""))
    kind = kinds().get(f"{name}.{version.rpartition('/')[0]}")
    if kind is None or kind.key.endswith(f".{GROUP}"):
        return None
    data = {**data, "apiVersion": version, "metadata": {"name": "x", "namespace": document.namespace}}
    made = Document(document.file, document.line, "", data, {})
    try:
        found = next(iter(kind.specs(made, kind.model.model_validate(without_nulls(data)))), None)
    except ValidationError:
        return None
    found = found.gang if isinstance(found, ServiceDraft) else found
    return found if isinstance(found, GangSpec) else None


def _stages(template: Template) -> Iterator[list[Repeated]]:
    """What runs side by side, one after the other; tasks of a graph by how many precede each in a row."""
    for group in template.steps or ():
        items = group if isinstance(group, list) else [group]
        yield [step for item in items if (step := _step(item)) is not None]
    if template.dag is None:
        return
    tasks = {task.name: task for task in template.dag.tasks}
    depths: dict[str, int] = {}
    for _ in tasks:  # as many rounds as the longest row may need; a circle ends as well
        for name, task in tasks.items():
            awaited = [*(task.dependencies or ()), *re.findall(r"[A-Za-z0-9_-]+", task.depends or "")]
            depths[name] = min(1 + max((depths.get(other, 0) for other in awaited if other in tasks), default=-1), 999)
    for depth in sorted(set(depths.values())):
        yield [task for name, task in tasks.items() if depths[name] == depth]


def _step(item: object) -> Repeated | None:
    """The step; None of what is none."""
    try:
        return Repeated.model_validate(without_nulls(item))
    except ValidationError:
        return None


WHY = "they are made step by step"
KINDS = tuple(
    Kind(name, GROUP, ("v1alpha1",), model, specs, time_diagnostics, is_foreign=True, unbound_reason=WHY)
    for name, model, specs in (("Workflow", Workflow, _workflow), ("CronWorkflow", CronWorkflow, _cron_workflow))
)
