"""The fields read of Argo's Workflow and CronWorkflow (argoproj.io/v1alpha1), as models."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from compiler.fields.models import Bool, LenientModel, below
from compiler.fields.texts import whole_number
from compiler.kinds.common import pods
from compiler.kinds.common.jobs import Natural

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
