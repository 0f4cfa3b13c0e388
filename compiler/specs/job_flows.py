"""Steps of JobFlows: gangs of Jobs that Volcano makes from JobTemplates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from compiler.specs.drafts import JobFlowDraft, JobTemplateDraft
from compiler.specs.gang_spec import FlowStep, GangSpec
from compiler.syntax.documents import Document


def job_flow_gangs(flows: Iterable[JobFlowDraft], templates: Iterable[JobTemplateDraft]) -> Iterator[GangSpec]:
    """One for each step whose template is among the documents; its lines are the template's."""
    by_name = {(_namespace(template.document), template.document.name): template for template in templates}
    for flow in flows:
        for step, targets in flow.steps.items():
            if (template := by_name.get((_namespace(flow.document), step))) is not None:
                yield _step_gang(flow, template, step, targets)


def step_name(flow: str, step: str) -> str:
    """Return the name of the Job that the controller makes."""
    return f"{flow}-{step}"


def _step_gang(flow: JobFlowDraft, template: JobTemplateDraft, step: str, targets: Iterable[str]) -> GangSpec:
    written = template.gang.document
    name = step_name(flow.document.name, step)
    data = {**written.data, "metadata": {"name": name, "namespace": _namespace(flow.document)}}
    item_path = (*written.item_path, "flow", flow.document.name)  # no document of a file has it
    document = Document(written.file, written.line, written.text, data, written.positions, item_path)
    return replace(
        template.gang,
        document=document,
        step=FlowStep(flow.document, tuple(step_name(flow.document.name, target) for target in targets)),
    )


def _namespace(document: Document) -> str:
    return document.namespace or "default"
