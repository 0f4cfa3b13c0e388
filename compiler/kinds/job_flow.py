"""Volcano's JobFlow and JobTemplate (flow.volcano.sh/v1alpha1): Jobs created from templates, each after others.

A step is the Job `flow-template`, which the controller creates once all its dependencies are Completed. It is created
from the JobTemplate, so the gate is there. Volcano 1.15's controller reads neither probes nor patches.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from compiler.fields.models import LenientModel, below, without_nulls
from compiler.kinds.common.jobs import Metadata
from compiler.kinds.kind import Kind
from compiler.kinds.volcano_job import Spec, VolcanoJob, text_diagnostics
from compiler.kinds.volcano_job import specs as job_specs
from compiler.specs.drafts import JobFlowDraft, JobTemplateDraft
from compiler.syntax.documents import Document


class Flow(LenientModel):
    name: str
    awaited: list[str] = Field([], validation_alias=below("dependsOn.targets"))


class FlowSpec(LenientModel):
    flows: list[Flow] | None = None


class JobFlow(LenientModel):
    api_version: str
    kind: str
    metadata: Metadata
    spec: FlowSpec


class JobTemplate(LenientModel):
    spec: Spec


def _flow_specs(document: Document, flow: JobFlow) -> Iterable[JobFlowDraft]:
    yield JobFlowDraft(document, {step.name: tuple(step.awaited) for step in flow.spec.flows or ()})


def _template_specs(document: Document, template: JobTemplate) -> Iterable[JobTemplateDraft]:
    data = {**document.data, "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    job = Document(document.file, document.line, document.text, data, document.positions, document.item_path)
    for gang in job_specs(job, VolcanoJob.model_validate(without_nulls(data))):
        yield JobTemplateDraft(document, gang)


KINDS = (
    Kind("JobFlow", "flow.volcano.sh", ("v1alpha1",), JobFlow, _flow_specs),
    Kind("JobTemplate", "flow.volcano.sh", ("v1alpha1",), JobTemplate, _template_specs, text_diagnostics),
)
