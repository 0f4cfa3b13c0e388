"""Argo's rules for a workflow: unknown names, templates of no type or of two, and missing arguments.

Source: workflow/validate/validate.go of argo-workflows 3.7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compiler.checks.check import Finding
from compiler.checks.volcano_job import dependency_cycle, shown_cycle
from compiler.diagnostics.diagnostic import suggestion, to_write
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping, texts, values

_FILES = ("container", "containerSet", "resource", "script")
"""Types of templates whose pods load and keep artifacts."""
_TYPES = ["container", "containerSet", "steps", "script", "resource", "dag", "suspend", "data", "http", "plugin"]
_WITH_VALUE = frozenset(("value", "default", "valueFrom"))
_LOOPS = ("withItems", "withParam", "withSequence")
_OF_OTHERS = re.compile(r"\{\{\s*(?:tasks|steps)\.([\w-]+)\.")
_OUTPUT = re.compile(r"\{\{\s*(?:tasks|steps)\.([\w-]+)\.outputs\.(parameters|artifacts)\.([\w.-]+)\s*\}\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*", re.ASCII)
"""Names of templates, steps and tasks. Names of parameters and artifacts may have _ and . as well."""
_OF_WORKFLOW = re.compile(r"\{\{\s*workflow\.parameters\.([\w-]+)\s*\}\}")
_OF_TEMPLATE = re.compile(r"\{\{\s*inputs\.parameters\.([\w-]+)\s*\}\}")
_AWAITED = re.compile(r"[A-Za-z_][\w-]*(?:\.\w+)?")
Placed = tuple[FieldPath, dict[str, Any]]


def workflow(document: Document) -> Iterator[Finding]:
    """The findings on a Workflow that holds its templates itself."""
    spec = mapping(document.data, "spec")
    if mapping(spec, "workflowTemplateRef"):
        return
    templates: list[Placed] = [(("spec", "templates", at), each) for at, each in items(spec, "templates")]
    names = [str(each.get("name")) for _, each in templates]
    is_template = document.written.kind != document.kind and document.written.kind.endswith("WorkflowTemplate")
    yield from _names(document, templates, "template")
    yield from _unknown_parameters(document, spec, is_template=is_template)
    declared = {str(each.get("name")): each for _, each in templates}
    for path, template in templates:
        yield from _template(document, path, template, spec)
        yield from _runs(document, path, template, declared)
    entrypoint = spec.get("entrypoint")
    if names and entrypoint not in names and not (is_template and entrypoint is None):
        help = suggestion(str(entrypoint), names, f"write {names[0]}")
        yield Finding(document, ("spec", "entrypoint"), f"there is no template {entrypoint!r} to begin with", help)
    for at, parameter in items(mapping(spec, "arguments"), "parameters"):
        if not parameter.keys() & {"value", "valueFrom"} and not is_template:
            place: FieldPath = ("spec", "arguments", "parameters", at)
            yield Finding(document, place, f"parameter {parameter.get('name')!r} has no value", "add value")


def _template(
    document: Document, path: FieldPath, template: dict[str, Any], spec: Mapping[str, Any]
) -> Iterator[Finding]:
    types = [each for each in _TYPES if template.get(each) is not None]
    has_defaults = bool(spec.get("templateDefaults"))
    if len(types) > 1:
        message = f"a template is of one type, and this one is {' and '.join(types)}"
        yield Finding(document, (*path, types[1]), message, "write a template for each")
    elif not types and not has_defaults:
        yield Finding(document, path, "the template runs nothing", f"add one of {', '.join(_TYPES[:6])}")
    known = [str(each.get("name")) for _, each in items(mapping(template, "inputs"), "parameters")]
    used = {name: at for at, text in _texts_in(template, path) for name in _OF_TEMPLATE.findall(text)}
    yield from unknown_names(document, [(at, name) for name, at in used.items()], known, "input parameter")
    yield from _artifacts(document, path, template, types)
    for number, output in items(mapping(template, "outputs"), "parameters"):
        place, source = (*path, "outputs", "parameters", number), mapping(output, "valueFrom")
        if source and (wanted := _SOURCES.get(types[0] if types else "")) and not source.keys() & set(wanted):
            message = f"the output of a {types[0]} template comes from its {' or '.join(wanted)}"
            yield Finding(document, (*place, "valueFrom"), message, f"add {wanted[0]}")
    yield from _container_set(document, path, template)
    yield from _only_of_pods(document, path, template, types)
    if not (has_defaults or spec.get("podSpecPatch") or template.get("podSpecPatch")):
        yield from _mounts(document, path, template, spec)


_SOURCES: Mapping[str, tuple[str, ...]] = {
    "container": ("path",),
    "dag": ("parameter", "expression"),
    "resource": ("jsonPath", "jqFilter"),
    "script": ("path",),
    "steps": ("parameter", "expression"),
}
"""Type of a template -> keys of valueFrom of which an output has one."""


def _artifacts(
    document: Document, path: FieldPath, template: dict[str, Any], types: Sequence[str]
) -> Iterator[Finding]:
    """Only what runs a pod has files, and there each artifact has its path."""
    is_leaf = bool(types) and types[0] in _FILES
    for side in ("inputs", "outputs"):
        for number, artifact in items(mapping(template, side), "artifacts"):
            at: FieldPath = (*path, side, "artifacts", number)
            if is_leaf and not artifact.get("path"):
                yield Finding(document, at, f"artifact {artifact.get('name')!r} has no path", "add path")
            elif types and types[0] in ("dag", "steps") and artifact.get("path"):
                message = f"a template of {types[0]} has no files of its own"
                yield Finding(document, (*at, "path"), message, "remove it" if side == "inputs" else "write from")


def _container_set(document: Document, path: FieldPath, template: dict[str, Any]) -> Iterator[Finding]:
    if not mapping(template, "containerSet"):
        return
    at = (*path, "containerSet", "containers")
    containers: list[Placed] = [((*at, number), each) for number, each in items(template["containerSet"], "containers")]
    yield from _names(document, containers, "container")
    yield from _order(document, containers, "container")
    has_files = any(
        mapping(template, side).get(key)
        for side, key in (("inputs", "artifacts"), ("outputs", "artifacts"), ("outputs", "parameters"))
    )
    if has_files and "main" not in [each.get("name") for _, each in containers]:
        yield Finding(document, at, "Argo loads and keeps the files of a container named main", "name one of them main")


def _only_of_pods(
    document: Document, path: FieldPath, template: dict[str, Any], types: Sequence[str]
) -> Iterator[Finding]:
    """Limits of one pod, and those of several steps."""
    is_many = bool(types) and types[0] in ("dag", "steps")
    for key in ("activeDeadlineSeconds", "timeout") if is_many else ("parallelism",) if types else ():
        if template.get(key) is not None:
            help = "write it at the templates of its steps" if is_many else "write it at a template of steps or a dag"
            yield Finding(document, (*path, key), f"a template of type {types[0]} has no {key}", help)


def _containers(template: Mapping[str, Any], path: FieldPath) -> Iterator[Placed]:
    yield from (((*path, key), mapping(template, key)) for key in ("container", "script") if mapping(template, key))
    for keys in (("initContainers",), ("sidecars",), ("containerSet", "containers")):
        for number, each in items(mapping(template, *keys[:-1]), keys[-1]):
            yield (*path, *keys, number), each


def _mounts(
    document: Document, path: FieldPath, template: dict[str, Any], spec: Mapping[str, Any]
) -> Iterator[Finding]:
    claims = [mapping(each, "metadata") for _, each in items(spec, "volumeClaimTemplates")]
    volumes = [each for holder in (spec, template) for _, each in items(holder, "volumes")]
    known = [str(each.get("name")) for each in (*claims, *volumes)]
    for at, container in _containers(template, path):
        files = items(mapping(template, "inputs"), "artifacts") if at[-1] == "container" else []
        places = Counter(str(each["path"]) for _, each in files if each.get("path"))
        mounts = items(container, "volumeMounts")
        named = [((*at, "volumeMounts", number, "name"), str(mount.get("name"))) for number, mount in mounts]
        yield from unknown_names(document, [each for each in named if "{{" not in each[1]], known, "volume")
        for number, mount in mounts:
            places[str(mount.get("mountPath"))] += 1
            if places[str(mount.get("mountPath"))] == 2:
                path_twice = (*at, "volumeMounts", number, "mountPath")
                yield Finding(document, path_twice, "another volume or artifact is mounted here", "choose another path")


def _runs(
    document: Document, path: FieldPath, template: dict[str, Any], declared: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """The findings on the steps and tasks of a template. declared: the templates by name."""
    tasks: list[Placed] = [
        ((*path, "dag", "tasks", number), task) for number, task in items(mapping(template, "dag"), "tasks")
    ]
    steps: list[Placed] = [
        ((*path, "steps", row, number), step)
        for row, group in enumerate(values(template, "steps"))
        for number, step in items({"row": group}, "row")
    ]
    yield from _names(document, steps, "step")
    yield from _names(document, tasks, "task")
    yield from _order(document, tasks, "task")
    yield from _outputs(document, path, template, (*tasks, *steps), declared)
    known = [str(each.get("name")) for _, each in (*tasks, *steps)]
    used = {name: at for at, text in _texts_in(template, path) for name in _OF_OTHERS.findall(text)}
    yield from unknown_names(document, [(at, name) for name, at in used.items()], known, "step or task")
    for place, each in (*tasks, *steps):
        name = each.get("template")
        if all(each.get(key) is None for key in ("inline", "template", "templateRef")):
            yield Finding(document, place, "it names no template", "add template, templateRef or inline")
        loops = [key for key in _LOOPS if each.get(key) is not None]
        if len(loops) > 1:
            message = f"a step has one of {', '.join(_LOOPS)}, and {' and '.join(loops)} are given"
            yield Finding(document, (*place, loops[1]), message, "keep one")
        if not isinstance(name, str) or "{{" in name:
            continue
        given = [argument.get("name") for _, argument in items(mapping(each, "arguments"), "parameters")]
        inputs = items(mapping(declared.get(name, {}), "inputs"), "parameters")
        needed = [wanted for _, wanted in inputs if not wanted.keys() & _WITH_VALUE]
        if missing := [str(wanted.get("name")) for wanted in needed if wanted.get("name") not in given]:
            message = f"template {name!r} takes {', '.join(missing)}, and no argument gives it"
            yield Finding(document, place, message, "add arguments.parameters, or a default to the input")


def _outputs(
    document: Document,
    path: FieldPath,
    template: dict[str, Any],
    runs: Sequence[Placed],
    declared: Mapping[str, Mapping[str, Any]],
) -> Iterator[Finding]:
    """Outputs that steps use of others whose templates have none of the name."""
    by_name = {str(each.get("name")): declared.get(str(each.get("template"))) for _, each in runs}
    seen = set[tuple[str, str, str]]()
    for at, text in _texts_in(template, path):
        for run, kind, name in _OUTPUT.findall(text):
            if (found := by_name.get(run)) is None or (run, kind, name) in seen:
                continue
            seen.add((run, kind, name))
            known = [str(each.get("name")) for _, each in items(mapping(found, "outputs"), kind)]
            what = f"output {kind.removesuffix('s')} of template {found.get('name')}"
            yield from unknown_names(document, [(at, name)], known, what)


def _order(document: Document, tasks: Sequence[Placed], what: str) -> Iterator[Finding]:
    """The findings on what tasks, or containers of a set, wait for."""
    known = [str(task.get("name")) for _, task in tasks]
    both = [place for place, task in tasks if task.get("depends")]
    if both and any(task.get("dependencies") for _, task in tasks):
        message = "tasks of one dag have either depends or dependencies, and both are here"
        yield Finding(document, (*both[0], "depends"), message, "keep one of the two")
    needs: dict[str, list[str]] = {}
    for place, task in tasks:
        awaited: list[tuple[FieldPath, str]] = [
            ((*place, "dependencies", at), name) for at, name in texts(task, "dependencies")
        ]
        if isinstance(text := task.get("depends"), str) and "{{" not in text:
            awaited += [((*place, "depends"), each.partition(".")[0]) for each in _AWAITED.findall(text)]
        yield from unknown_names(document, awaited, known, what)
        needs[str(task.get("name"))] = [name for _, name in awaited if name in known]
    if circle := dependency_cycle(needs):
        place = next(place for place, task in tasks if task.get("name") == circle[0])
        yield Finding(document, place, f"{what}s wait in a circle: {shown_cycle(circle)}", "remove one dependency")


def _names(document: Document, named: Sequence[Placed], what: str) -> Iterator[Finding]:
    for place, each in named:
        name = str(each.get("name") or "")
        if not name and what != "template":
            yield Finding(document, place, f"the {what} has no name", "add name")
        elif name and what != "container" and "{{" not in name and not _NAME.fullmatch(name):
            message = f"the name of the {what} {name!r} has more than letters, digits and -"
            yield Finding(document, (*place, "name"), message, to_write(re.sub("[^A-Za-z0-9-]+", "-", name).strip("-")))


def _unknown_parameters(document: Document, spec: dict[str, Any], *, is_template: bool) -> Iterator[Finding]:
    """Parameters of the workflow that its templates use, and that it does not have: at the first place of each."""
    if is_template and not spec.get("entrypoint"):
        return  # its templates run in workflows that have them
    known = [str(each.get("name")) for _, each in items(mapping(spec, "arguments"), "parameters")]
    places = dict[str, FieldPath]()
    for at, text in _texts_in(spec.get("templates"), ("spec", "templates")):
        for name in _OF_WORKFLOW.findall(text):
            places.setdefault(name, at)
    places.pop("json", None)
    yield from unknown_names(document, [(at, name) for name, at in places.items()], known, "parameter of the workflow")


def _texts_in(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(value, str):
        yield path, value
    for key, child in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from _texts_in(child, (*path, key))


def unknown_names(
    document: Document, named: Iterable[tuple[FieldPath, str]], known: Sequence[str], what: str
) -> Iterator[Finding]:
    """Yield a finding for each unknown name."""
    for path, name in named:
        if name not in known:
            help = suggestion(name, known, "name one that is there")
            yield Finding(document, path, f"there is no {what} {name!r}", help)
