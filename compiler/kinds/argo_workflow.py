"""Argo's Workflow and CronWorkflow (argoproj.io/v1alpha1): steps in order, each a pod or an object that it creates.

The controller creates the pods of a step when the step before has finished, so that none is bound. Room is kept for the
widest step: of all that run side by side the one that requests the most devices, then cpu. Pods of its objects of known
kinds count too. A step that repeats by a parameter counts once. `parallelism` of the workflow or of a template, and a
mutex of a template, bound how many pods run side by side: then the largest of them count. `podSpecPatch` is applied,
with parameters whose values are written next to them. Templates that are in a WorkflowTemplate or
ClusterWorkflowTemplate (`workflowTemplateRef`, `templateRef` of a step) are read from there if the repository has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from pydantic import Field, ValidationError

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.fields.models import Bool, LenientModel, below, without_nulls
from compiler.fields.texts import whole_number
from compiler.kinds.common import pods
from compiler.kinds.common.jobs import Natural, job_times, time_diagnostics
from compiler.kinds.common.pods import patched, pod_patch
from compiler.kinds.kind import Kind, kinds
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.specs.gang_spec import GangSpec, RoleSpec, Scheduling
from compiler.specs.services import ServiceDraft, unbound
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping

Scope = tuple[str, str]
"""Kind and name of the WorkflowTemplate that holds a template; empty for the Workflow's own."""
_MAX_REPEATS = 10_000


class WorkflowRef(LenientModel):
    """Names a WorkflowTemplate, and in it (of a step) a template."""

    name: str = ""
    template: str = ""
    cluster_scope: Bool | None = None

    @property
    def scope(self) -> Scope:
        return ("ClusterWorkflowTemplate" if self.cluster_scope else "WorkflowTemplate", self.name)


class Repeated(LenientModel):
    """A step or a task, and how often it runs side by side."""

    name: str = ""
    template: str | None = None
    template_ref: WorkflowRef | None = None
    inline: Template | None = None
    with_items: list[Any] | None = None
    with_sequence: dict[str, Any] | None = None
    dependencies: list[str] | None = None
    depends: str | None = None

    @property
    def repeats(self) -> int:
        if self.with_items is not None:
            return len(self.with_items)
        count = whole_number(str((self.with_sequence or {}).get("count", 1)), _MAX_REPEATS)
        return 1 if count is None else count


class Dag(LenientModel):
    tasks: list[Repeated] = Field(default_factory=list)


class Resource(LenientModel):
    action: str = ""
    manifest: str | None = None


class Parameter(LenientModel):
    name: str = ""
    value: Any = None
    default: Any = None


class Arguments(LenientModel):
    parameters: list[Parameter] | None = None

    def values(self, prefix: str) -> dict[str, str]:
        """`prefix` and the name of each parameter -> its value, as far as it is written here."""
        found = ((f"{prefix}{p.name}", p.default if p.value is None else p.value) for p in self.parameters or ())
        return {name: str(value) for name, value in found if value is not None}


class Template(pods.Placement):
    name: str = ""
    container: pods.Container | None = None
    script: pods.Container | None = None
    container_set: list[pods.Container] = Field([], validation_alias=below("containerSet.containers"))
    resource: Resource | None = None
    steps: list[Any] | None = None
    dag: Dag | None = None
    metadata: pods.TemplateMetadata | None = None
    init_containers: list[pods.Container] | None = None
    sidecars: list[pods.Container] | None = None
    parallelism: Natural | None = None
    mutex: Any = Field(None, validation_alias=below("synchronization.mutex"))
    mutexes: list[Any] = Field([], validation_alias=below("synchronization.mutexes"))
    pod_spec_patch: str | None = None
    inputs: Arguments | None = None

    @property
    def is_exclusive(self) -> bool:
        """Return whether one of it runs at a time."""
        return self.mutex is not None or bool(self.mutexes)

    @property
    def is_leaf(self) -> bool:
        """Return whether it has no steps."""
        return self.steps is None and self.dag is None


class Spec(pods.Placement):
    entrypoint: str | None = None
    workflow_template_ref: WorkflowRef | None = None
    templates: list[Template] | None = None
    suspend: Bool | None = None
    pod_priority_class_name: str | None = None
    parallelism: Natural | None = None
    pod_spec_patch: str | None = None
    arguments: Arguments | None = None


class Workflow(LenientModel):
    spec: Spec


class CronWorkflow(LenientModel):
    spec: Spec = Field(validation_alias=below("spec.workflowSpec"))
    suspend: Bool | None = Field(None, validation_alias=below("spec.suspend"))


GROUP = "argoproj.io"
_CREATING = ("create", "apply", "replace")
TEMPLATES_ELSEWHERE = declare_rule("GP225", "warning")
UNREAD_LIMIT = declare_rule("GP227", "warning")
OWN: Scope = ("", "")
Key = tuple[Scope, str]
"""Where a template is, and its name."""
Use = tuple[Key, Key | None]
"""A template that runs pods, and the template around it if that one places them."""
_PLACING = ("node_selector", "affinity", "tolerations")


@dataclass(frozen=True, slots=True)
class WorkflowDraft:
    """A workflow that refers to templates elsewhere. path: of its spec in the document."""

    document: Document
    spec: Spec
    path: FieldPath
    is_recurring: bool


def _workflow(document: Document, model: Workflow) -> Iterable[GangSpec | WorkflowDraft]:
    yield from _specs(WorkflowDraft(document, model.spec, ("spec",), is_recurring=False))


def _cron_workflow(document: Document, model: CronWorkflow) -> Iterable[GangSpec | WorkflowDraft]:
    spec = model.spec.model_copy(update={"suspend": model.suspend})
    yield from _specs(WorkflowDraft(document, spec, ("spec", "workflowSpec"), is_recurring=True))


def _specs(draft: WorkflowDraft) -> Iterator[GangSpec | WorkflowDraft]:
    """Yield the draft where it refers to other documents, else its gang if it runs pods."""
    gang, missing = workflow_gang(draft, {})
    if missing:
        yield draft
    elif gang is not None:
        yield gang


def workflow_templates(documents: Iterable[Document], namespace: str) -> dict[Scope, Spec]:
    """Return the WorkflowTemplates that a workflow of the namespace may refer to."""
    found = {}
    for document in documents:
        is_near = document.kind == "ClusterWorkflowTemplate" or (document.namespace or "default") == namespace
        if document.group == GROUP and document.kind.endswith("WorkflowTemplate") and is_near:
            try:
                spec = Spec.model_validate(without_nulls(document.data.get("spec")))
            except ValidationError:  # reported at its place
                continue
            found[document.kind, document.name] = spec
    return found


def workflow_gang(draft: WorkflowDraft, elsewhere: Mapping[Scope, Spec]) -> tuple[GangSpec | None, tuple[str, ...]]:
    """Return the gang of a workflow that runs pods: those of its widest step, and none of the others. And the
    WorkflowTemplates that it needs and that are not here."""
    document, spec, path = draft.document, draft.spec, draft.path
    if (reference := spec.workflow_template_ref) is not None:
        if (named := elsewhere.get(reference.scope)) is None:
            return None, (_scope_text(reference.scope),)
        written = {name: value for name in spec.model_fields_set if (value := getattr(spec, name)) is not None}
        spec = named.model_copy(update=written)
    steps = _Steps(document, spec, path, elsewhere)
    widest = steps.limited(steps.widest((OWN, spec.entrypoint or ""), ()), spec.parallelism)
    missing = tuple(map(_scope_text, steps.missing))
    found = [(leaf, widest[use]) for use, leaf in steps.named_leaves()]
    roles = [replace(role, replicas=role.replicas * count) for leaf, count in found for role in leaf.roles]
    if not roles:
        return None, missing
    queues = {leaf.queue for leaf, count in found if count}
    queue = queues.pop() if len(queues) == 1 else ""
    gang = GangSpec(
        document=document,
        queue=queue,
        priority_class=spec.pod_priority_class_name,
        minimum=0,
        roles=tuple(roles),
        times=job_times(document),
        field_paths={"queue": roles[0].path, "minimum": (*path, "entrypoint"), "priority_class": path},
        scheduling=Scheduling(scheduler_name=VOLCANO_SCHEDULER if queue else ""),
    )
    gang = gang.with_scheduling(schedulable=False) if spec.suspend else unbound(gang)
    return gang.with_scheduling(is_recurring=draft.is_recurring), missing


def _scope_text(scope: Scope) -> str:
    return f"{scope[0]} {scope[1]!r}"


def elsewhere_diagnostic(draft: WorkflowDraft, missing: Sequence[str], is_planned: bool) -> Diagnostic:
    outcome = "their pods are in no plan" if is_planned else "it is not planned"
    verb, them = ("are", "them") if len(missing) > 1 else ("is", "it")
    message = f"{draft.document.display_name} runs {', '.join(missing)}, which {verb} not in the repository: {outcome}"
    path: FieldPath = (*draft.path, "workflowTemplateRef") if draft.spec.workflow_template_ref else draft.path
    return draft.document.diagnostic(TEMPLATES_ELSEWHERE, path, message, f"add {them}, or leave room for the pods")


@dataclass(frozen=True, slots=True)
class _Leaf:
    """Pods of a template without steps; queue: of the objects that it creates."""

    roles: tuple[RoleSpec, ...]
    queue: str = ""


@dataclass
class _Steps:
    """The templates of a workflow. leaves: templates that run pods, in the order of the walk. missing: referenced
    WorkflowTemplates that are not `elsewhere`."""

    document: Document
    spec: Spec
    path: FieldPath
    elsewhere: Mapping[Scope, Spec]
    leaves: dict[Use, _Leaf] = field(default_factory=dict)
    known: dict[Use, Counter[Use]] = field(default_factory=dict)
    missing: dict[Scope, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.templates: dict[Key, tuple[FieldPath, Template]] = {}
        is_own = self.spec.workflow_template_ref is None
        for at, each in enumerate(self.spec.templates or ()):
            path = (*self.path, "templates", at) if is_own else (*self.path, "workflowTemplateRef")
            self.templates[OWN, each.name] = path, each

    def named_leaves(self) -> Iterator[tuple[Use, _Leaf]]:
        """The leaves; the roles of one that runs in several ways are named after the template around it as well."""
        ways = Counter(key for key, _ in self.leaves)
        for (key, around), leaf in self.leaves.items():
            if around is not None and ways[key] > 1:
                name = self.templates[around][1].name
                roles = tuple(replace(role, name=f"{name}.{role.name}") for role in leaf.roles)
                yield (key, around), replace(leaf, roles=roles)
            else:
                yield (key, around), leaf

    def widest(self, key: Key, above: tuple[Key, ...]) -> Counter[Use]:
        """Leaf -> how many of it run side by side at the most. A template that runs itself counts once."""
        if key not in self.templates or key in above:
            return Counter()
        path, template = self.templates[key]
        around = above[-1] if above and self._is_placed_by(above[-1], template) else None
        use = key, around
        if use not in self.known:
            if template.is_leaf:
                if (leaf := self._leaf(template, path, around)) is not None:
                    self.leaves[use] = leaf
                self.known[use] = Counter({use: 1})
            else:
                sums = (self._sum(stage, (*above, key)) for stage in _stages(template))
                bounded = (self.limited(counts, template.parallelism) for counts in sums)
                self.known[use] = max(bounded, key=self._weight, default=Counter())
        return self.known[use]

    def limited(self, counts: Counter[Use], most: int | None) -> Counter[Use]:
        """Return the largest pods of these, so many of them; all without a limit. One of an exclusive template."""
        left, found = most or sum(counts.values()), Counter[Use]()
        for use in sorted(counts, key=lambda use: self._weight({use: 1}), reverse=True):
            there = min(counts[use], 1) if self.templates[use[0]][1].is_exclusive else counts[use]
            if number := min(there, left):
                found[use], left = number, left - number
        return found

    def _is_placed_by(self, around: Key, template: Template) -> bool:
        """Return whether the surrounding template places the template's pods."""
        if not template.is_leaf or template.resource is not None:
            return False
        outer = self.templates[around][1]
        return any(getattr(outer, name) and not getattr(template, name) for name in _PLACING)

    def _sum(self, stage: Sequence[Repeated], above: tuple[Key, ...]) -> Counter[Use]:
        total: Counter[Use] = Counter()
        times: Counter[Key] = Counter()
        for step in stage:
            times[self._key(step, above[-1])] += step.repeats
        for key, number in times.items():
            is_exclusive = key in self.templates and self.templates[key][1].is_exclusive
            for leaf, count in self.widest(key, above).items():
                total[leaf] += count * (min(number, 1) if is_exclusive else number)
        return total

    def _key(self, step: Repeated, parent: Key) -> Key:
        """Where the step's template is; that of another document, or inside the step, is added to the templates."""
        path, _ = self.templates[parent]
        if step.inline is not None:
            key = (parent[0], f"{parent[1]}.{step.name}")
            self.templates[key] = path, step.inline.model_copy(update={"name": f"{parent[1]}.{step.name}"})
            return key
        if (reference := step.template_ref) is None:
            return parent[0], step.template or ""
        scope = reference.scope
        if scope not in self.elsewhere:
            self.missing[scope] = None
            return scope, ""
        for each in self.elsewhere[scope].templates or ():
            named = each.model_copy(update={"name": f"{scope[1]}.{each.name}"})
            self.templates.setdefault((scope, each.name), (path, named))
        return scope, reference.template

    def _weight(self, counts: Mapping[Use, int]) -> tuple[int, int, int]:
        """Devices, cpu, pods."""
        devices = cpu = number = 0
        for use, count in counts.items():
            for role in self.leaves[use].roles if use in self.leaves else ():
                requests, all_pods = role.pod.requests, role.replicas * count
                devices += all_pods * sum(amount for key, amount in requests.items() if "/" in key)
                cpu, number = cpu + all_pods * requests.get("cpu", 0), number + all_pods
        return devices, cpu, number

    def _leaf(self, template: Template, path: FieldPath, around: Key | None) -> _Leaf | None:
        """around: the template with the step. Node selector, affinity and tolerations are those of the template, else
        of the one around it, else of the workflow (addSchedulingConstraints of Argo's workflowpod.go)."""
        if template.resource is not None:
            return self._leaf_of_resource(template, (*path, "resource"))
        containers = [each for each in (template.container, template.script) if each is not None]
        containers += template.container_set
        if not containers:
            return None
        spec, outer = self.spec, [] if around is None else [self.templates[around]]
        places = (path, *(place for place, _ in outer), self.path)
        levels = (template, *(each for _, each in outer), spec)
        others: dict[str, Any] = {
            **{name: next(filter(None, (getattr(each, name) for each in levels)), None) for name in _PLACING},
            "init_containers": template.init_containers,
            "scheduler_name": template.scheduler_name or spec.scheduler_name,
        }
        selector: Mapping[str, str] = others["node_selector"] or {}
        others["node_selector"] = {key: value for key, value in selector.items() if "{{" not in value}
        pod_spec = pods.PodSpecModel(containers=[*containers, *(template.sidecars or ())]).model_copy(update=others)
        values = (spec.arguments or Arguments()).values("workflow.parameters.")
        values |= (template.inputs or Arguments()).values("inputs.parameters.")
        for patch in (spec.pod_spec_patch, template.pod_spec_patch):
            pod_spec = patched(pod_spec, patch, values) or pod_spec
        pod = pods.PodTemplate(metadata=template.metadata, spec=pod_spec)
        role = pods.role_spec(template.name, 1, 0, pod, path)
        return _Leaf((replace(role, template_path=(), selector_paths=places),))

    def _leaf_of_resource(self, template: Template, path: FieldPath) -> _Leaf | None:
        """Return the pods of an object of a known kind; None for an unreadable one, by its parameters for example."""
        resource = template.resource or Resource()
        if resource.action not in _CREATING or not (gang := _embedded_gang(self.document, resource.manifest)):
            return None
        roles = (
            replace(role, name=f"{template.name}-{role.name}", path=path, template_path=(), minimum=0)
            for role in gang.roles
        )
        return _Leaf(
            tuple(roles), gang.queue or ("default" if gang.scheduling.scheduler_name == VOLCANO_SCHEDULER else "")
        )


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
        found = next(iter(kind.specs(made, kind.read(made))), None)
    except ValidationError:
        return None
    found = found.gang if isinstance(found, ServiceDraft) else found
    return found if isinstance(found, GangSpec) else None


def _stages(template: Template) -> Iterator[list[Repeated]]:
    """Yield the steps that run side by side, one after the other; tasks of a graph by how many precede each in a
    row."""
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
    """Return the step; None for invalid data."""
    try:
        return Repeated.model_validate(without_nulls(item))
    except ValidationError:
        return None


def _diagnostics(document: Document) -> Iterator[Diagnostic]:
    """Yield the unplanned parts of a workflow, after all else."""
    yield from time_diagnostics(document)
    path = ("spec", "workflowSpec") if document.kind == "CronWorkflow" else ("spec",)
    spec = mapping(document.data, *path)
    given = _arguments_of(spec.get("arguments")).values("workflow.parameters.")
    places: list[tuple[FieldPath, dict[str, Any]]] = [(path, spec)]
    places += [((*path, "templates", number), each) for number, each in items(spec, "templates")]
    for at, each in places:
        values = given | _arguments_of(each.get("inputs")).values("inputs.parameters.")
        if (patch := each.get("podSpecPatch")) and pod_patch(str(patch), values) is None:
            message = "the podSpecPatch cannot be read: its pods count without it"
            help = "write the resources into the template, or values next to the parameters"
            yield document.diagnostic(UNREAD_LIMIT, (*at, "podSpecPatch"), message, help)
        synchronization = mapping(each, "synchronization")
        if at == path and synchronization:
            message = "what the workflow waits for is not read: room is kept as if it began now"
            help = "nothing, where it is alone with its locks; else suspend it until it may begin"
            where = (*at, "synchronization")
            yield document.diagnostic(UNREAD_LIMIT, where, message, help, severity="info")
        elif key := next((key for key in ("semaphore", "semaphores") if synchronization.get(key)), None):
            message = "the number of the semaphore is not read: room is kept for all pods that may run side by side"
            yield document.diagnostic(UNREAD_LIMIT, (*at, "synchronization", key), message, "write parallelism as well")


def _arguments_of(data: Any) -> Arguments:
    """Arguments or inputs; none where they are malformed."""
    try:
        return Arguments.model_validate(without_nulls(data)) if data else Arguments()
    except ValidationError:
        return Arguments()


WHY = "they are made step by step"
KINDS = tuple(
    Kind(name, GROUP, ("v1alpha1",), model, specs, _diagnostics, is_foreign=True, unbound_reason=WHY)
    for name, model, specs in (("Workflow", Workflow, _workflow), ("CronWorkflow", CronWorkflow, _cron_workflow))
)
