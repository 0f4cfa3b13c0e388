"""Objects that are in no plan (ConfigMaps, Services, claims and others): what of them the reconciler writes."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.emit.live_changes import FieldDifference, written_differences
from compiler.emit.waves import KINDS_OF_OTHER_WAVES
from compiler.explain.names import compact_names
from compiler.kubernetes import API_GROUP, PRUNE_ANNOTATION, is_never_pruned
from compiler.run_kinds import runs_once
from compiler.specs.cluster_spec import Specs
from compiler.syntax.documents import Document

_MAX_FIELDS, _MAX_TEXT = 3, 24
_Name = tuple[str, str, str, str]


def object_changes(before: Specs, after: Specs) -> Iterator[str]:
    """One sentence for each object that is new, deleted or changed."""
    old, new = _passed_through(before), _passed_through(after)
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield f"{new[name].display_name} is new"
        elif name not in new:
            stays = is_never_pruned(old[name].data)
            yield f"{old[name].display_name} is " + (
                f"no longer kept, and stays in the cluster ({PRUNE_ANNOTATION}: disabled)" if stays else "deleted"
            )
        elif fields := [_text(name[0], field) for field in written_differences(new[name].data, old[name].data)]:
            run = ": a new run, once the live one is over" if runs_once(new[name].data) else ""
            yield f"{new[name].display_name}: {compact_names(fields, _MAX_FIELDS)} changed{run}"


def _text(kind: str, field: FieldDifference) -> str:
    """Return the path, with the values where they are short, and none that a Secret or a ConfigMap keeps."""
    values = [str(value) for value in (field.live, field.desired) if isinstance(value, int | str)]
    is_short = len(values) == 2 and all(len(value) <= _MAX_TEXT and "\n" not in value for value in values)
    is_shown = is_short and kind not in ("ConfigMap", "Secret")
    return f"{field.path_text} ({' -> '.join(values)})" if is_shown else field.path_text


def _passed_through(specs: Specs) -> dict[_Name, Document]:
    planned = {document.identity for gang in specs.gangs for document in (gang.document, *gang.pod_documents)}
    planned |= set() if specs.scheduler is None else {specs.scheduler.document.identity}
    others = (document for document in specs.documents if document.identity not in planned)
    return {(each.kind, each.group, each.namespace, each.name): each for each in filter(_is_passed_through, others)}


def _is_passed_through(document: Document) -> bool:
    is_of_other_wave = (document.kind, document.group) in KINDS_OF_OTHER_WAVES and document.kind != "Namespace"
    return document.group != API_GROUP and not is_of_other_wave
