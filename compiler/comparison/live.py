"""The reconciler's treatment of live objects whose text differs between two revisions, by its own rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from compiler.comparison.edits import Edit
from compiler.diagnostics.diagnostic import Diagnostic
from compiler.emit.live_changes import (
    NEVER_REPLACED,
    FieldDifference,
    RunAction,
    may_be_replaced,
    refused_fields,
    run_change,
    written_differences,
)
from compiler.emit.manifest import REFUSED_BY_SERVER
from compiler.emit.waves import job_object, runs_as_job
from compiler.kubernetes import REPLACE_ANNOTATION
from compiler.outcome import JobDecision, Outcome
from compiler.run_kinds import run_kind_of
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec, JobKey
from compiler.syntax.documents import Document

Treatment = Literal["in place", "update", "new run", "next run", "restart", "at once"]
"""The treatment of an edited job. update: a service, whose controller rolls the change out. new run: the live run
continues, and the new one waits for its end. next run: a JobTemplate, whose live job stays. restart: the live run is
ended for the new one. at once: nothing of it runs, so that nothing is lost."""
_TREATMENTS: Mapping[RunAction, Treatment] = {"in-place": "in place", "replace": "restart", "held": "new run"}


def treatments(base: Outcome, head: Specs, edits: Mapping[JobKey, Edit]) -> dict[JobKey, Treatment]:
    """Return the treatment of each edited job that the base runs; of others, at once."""
    former, gangs = base.by_key, {gang.key: gang for gang in head.gangs}
    return {
        key: _treatment(base, head, former[key], replace(former[key], gang=gangs[key]), edit)
        for key, edit in edits.items()
    }


def bound_treatments(
    base: Outcome, head: Outcome, edits: Mapping[JobKey, Edit], treated: Mapping[JobKey, Treatment]
) -> dict[JobKey, Treatment]:
    """Return the treatments once the head is planned: with static binding the planned nodes are in templates, which no
    live job lets be changed."""
    if head.specs.cluster.binding != "static":
        return dict(treated)
    planned = {key: decision for key, decision in head.by_key.items() if treated.get(key) == "in place"}
    bound = {key: _treatment(base, head.specs, base.by_key[key], planned[key], edits[key]) for key in planned}
    return {**treated, **bound}


def _treatment(base: Outcome, head: Specs, former: JobDecision, decision: JobDecision, edit: Edit) -> Treatment:
    """Return the treatment of one edited job. decision: the former one, with the edited job: a new placement is not an
    edit."""
    if not former.pods:
        return "at once"
    step, former_step = decision.gang.step, former.gang.step
    if step is not None and former_step is not None:
        return "next run" if step.flow.data == former_step.flow.data else "new run"
    if decision.gang.scheduling.is_recurring:
        return "next run"
    desired, live = job_object(head, decision, base.origins), job_object(base.specs, former, base.origins)
    fields = written_differences(desired, live)
    if not runs_as_job(decision.gang.document, decision.gang):
        return "update" if _is_of_template(decision.gang, fields) else "in place"
    found = run_change(desired, fields, is_new_run=edit.is_new_run, is_over=False, has_started=True)
    return _TREATMENTS.get(found.action, "in place")


def _is_of_template(gang: GangSpec, fields: Sequence[FieldDifference]) -> bool:
    """Return whether one of the fields is of a pod template; where the object holds none, whether one is more than a
    count."""
    templates = [path for role in gang.roles if (path := tuple(role.template_path))]
    if gang.document.kind == "LeaderWorkerSet":
        templates.append(("spec", "leaderWorkerTemplate"))  # groups are made again for a change of anything in it
    if not templates and not any(role.pod_documents for role in gang.roles):
        return any(field.steps[-1] not in _COUNTS for field in fields)
    return any(field.steps[: len(path)] == path for field in fields for path in templates)


_COUNTS = ("replicas", "minReplicas", "maxReplicas", "minAvailable", "instances", "count")


def refusals(base: Specs, head: Specs) -> Iterator[Diagnostic]:
    """Yield an error for each object of which the API server is known to refuse the change, so that the commit is
    held."""
    former = {_name_of(document): document for document in base.documents}
    for document in head.documents:
        live = former.get(_name_of(document))
        if live is None or live.data == document.data:
            continue
        kind = run_kind_of(document.data).removesuffix(".")
        fields = refused_fields(written_differences(document.data, live.data), kind)
        if fields and (kind in NEVER_REPLACED or not may_be_replaced(document.data)):
            yield _refusal(document, fields[0].path_text, fields[0].live, fields[0].desired)


def _refusal(document: Document, path: str, live: Any, desired: Any) -> Diagnostic:
    values = f" ({live} -> {desired})" if not isinstance(live, dict | list) and desired is not None else ""
    return REFUSED_BY_SERVER.diagnostic(
        document.position("metadata", "name"),
        f"the API server refuses to change {path} of a live {document.kind}{values}",
        f'use another name, or the annotation {REPLACE_ANNOTATION}: "true", which deletes and recreates the object',
        object=document.display_name,
    )


def _name_of(document: Document) -> tuple[str, str, str, str]:
    return document.kind, document.group, document.namespace or "default", document.name
