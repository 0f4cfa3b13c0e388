"""Objects whose text differs between two revisions, and how the reconciler treats live ones, by its own rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.emit.live_changes import (
    NEVER_REPLACED,
    FieldDifference,
    RunAction,
    differing_places,
    may_be_replaced,
    refused_fields,
    run_change,
    written_differences,
)
from compiler.emit.manifest import REFUSED_BY_SERVER
from compiler.emit.waves import job_object, runs_as_job
from compiler.fields.texts import compact_names, dotted_path
from compiler.kubernetes import REPLACE_ANNOTATION
from compiler.outcome import JobDecision, Outcome
from compiler.run_kinds import run_kind_of
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec, JobKey
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.runs import run_digest

_MAX_FIELDS, _MAX_TEXT = 2, 40
_OUTSIDE = ("status", "apiVersion")
_METADATA = ("labels", "annotations")
"""The parts of a job's metadata that are written to the cluster in addition to its name."""
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Edit:
    """text: what differs, a field or two with their values where they are short. path: of the first of them.
    is_new_run: the specification differs, so that its pods are another run's."""

    text: str
    path: FieldPath = ()
    is_new_run: bool = True


def edited_jobs(base: Specs, head: Specs) -> dict[JobKey, Edit]:
    """Return the jobs of which the specification, a label or an annotation differs, their bare pods included."""
    _, _, common = paired({gang.key: gang for gang in base.gangs}, {gang.key: gang for gang in head.gangs})
    found = {key: _edit_of(*pair) for key, pair in common.items()}
    return {key: edit for key, edit in found.items() if edit is not None}


def _edit_of(before: GangSpec, after: GangSpec) -> Edit | None:
    old, new = ([each.data for each in _documents(gang)] for gang in (before, after))
    if old == new:
        return None
    is_new_run = run_digest(old[0]) != run_digest(new[0])
    places = _differences(old[0], new[0])
    if places or is_new_run:
        return _edit(places, is_new_run)
    if before.step is not None and after.step is not None and before.step.flow.data != after.step.flow.data:
        flow = _edit(_differences(before.step.flow.data, after.step.flow.data), True)
        return Edit(f"{after.step.flow.display_name}: {flow.text}")
    pods = [pod.name for pod in after.pod_documents if pod.data not in old]
    pods += [pod.name for pod in before.pod_documents if pod.name not in {each.name for each in after.pod_documents}]
    return Edit(f"other pods: {compact_names(pods, _MAX_FIELDS)}", ("metadata", "name"), is_new_run=False)


def _documents(gang: GangSpec) -> list[Document]:
    """Return the job's own, its pods', and that of the object which makes it."""
    return [gang.document, *gang.pod_documents, *((gang.step.flow,) if gang.step is not None else ())]


def _edit(places: Sequence[tuple[FieldPath, Any, Any]], is_new_run: bool) -> Edit:
    texts = [_difference_text(*place) for place in places[:_MAX_FIELDS]]
    if len(places) > _MAX_FIELDS:
        texts.append(f"{len(places) - _MAX_FIELDS} more")
    return Edit(", ".join(texts), places[0][0], is_new_run)


def _written(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are written to the cluster; the specification first."""
    found = {key: value for key, value in data.items() if key not in (*_OUTSIDE, "metadata")}
    return {**found, "metadata": {key: data["metadata"].get(key) or {} for key in _METADATA}}


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[FieldPath, Any, Any]]:
    """Return the written fields that differ, with `_NOTHING` for absence."""
    return list(differing_places(_written(before), _written(after), lambda old, new, _: bool(old == new), _NOTHING))


def _difference_text(path: FieldPath, before: Any, after: Any) -> str:
    where = dotted_path(path)
    if before is _NOTHING or after is _NOTHING:
        return f"{where} is {'new' if before is _NOTHING else 'gone'}"
    values = [str(each) for each in (before, after)]
    is_short = all(len(each) <= _MAX_TEXT and "\n" not in each for each in values)
    is_plain = not any(isinstance(each, dict | list) for each in (before, after))
    return f"{where} {' -> '.join(values)}" if is_short and is_plain else f"{where} differs"


K = TypeVar("K")
V = TypeVar("V")


def paired(before: Mapping[K, V], after: Mapping[K, V]) -> tuple[dict[K, V], dict[K, V], dict[K, tuple[V, V]]]:
    """Return new entries, removed entries, and both versions of common entries."""
    new = {key: value for key, value in after.items() if key not in before}
    gone = {key: value for key, value in before.items() if key not in after}
    return new, gone, {key: (before[key], value) for key, value in after.items() if key in before}


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
    if former.gang.document.group != decision.gang.document.group:
        return "restart"  # the other object is pruned
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
    was = "unset" if live is None else live
    values = f" ({was} -> {desired})" if not isinstance(live, dict | list) and desired is not None else ""
    return REFUSED_BY_SERVER.diagnostic(
        document.position("metadata", "name"),
        f"the API server refuses to change {path} of a live {document.kind}{values}",
        f'use another name, or the annotation {REPLACE_ANNOTATION}: "true", which deletes and recreates the object',
        object=document.display_name,
    )


def _name_of(document: Document) -> tuple[str, str, str, str]:
    return document.kind, document.group, document.namespace or "default", document.name
