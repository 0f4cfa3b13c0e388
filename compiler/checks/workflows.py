"""What Argo refuses of a workflow: unknown names, templates of no type or of two, and missing arguments.

Source: workflow/validate/validate.go of argo-workflows 3.7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from compiler.checks.check import Finding
from compiler.checks.volcano_job import dependency_cycle, shown_cycle
from compiler.diagnostics.diagnostic import suggestion
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping, texts, values
from compiler.validation.operators import containers_of_template

_TYPES = ["container", "containerSet", "steps", "script", "resource", "dag", "suspend", "data", "http", "plugin"]
_WITH_VALUE = frozenset(("value", "default", "valueFrom"))
_LOOPS = ("withItems", "withParam", "withSequence")
_ACTIONS = ("get", "create", "apply", "delete", "replace", "patch")
_OF_OTHERS = re.compile(r"\{\{\s*(?:tasks|steps)\.([\w-]+)\.")
_RETRY_POLICIES = ("Always", "OnFailure", "OnError", "OnTransientError")
_POD_GC = ("OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess")
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
    yield from _twice(document, templates, "template")
    yield from _unknown_parameters(document, spec)
    yield from _choice(document, ("spec", "podGC", "strategy"), mapping(spec, "podGC").get("strategy"), _POD_GC)
    declared = {str(each.get("name")): items(mapping(each, "inputs"), "parameters") for _, each in templates}
    for path, template in templates:
        yield from _template(document, path, template, spec)
        yield from _runs(document, path, template, declared)
    entrypoint = spec.get("entrypoint")
    if names and entrypoint not in names:
        help = suggestion(str(entrypoint), names, f"write {names[0]}")
        yield Finding(document, ("spec", "entrypoint"), f"there is no template {entrypoint!r} to begin with", help)
    ends = [(("spec", "onExit"), spec.get("onExit")), *_hooks(("spec",), spec)]
    yield from _unknown_templates(document, ends, names)
    for at, parameter in items(mapping(spec, "arguments"), "parameters"):
        if not parameter.keys() & {"value", "valueFrom"}:
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
    for key in ("container", "script"):
        if key in types and not mapping(template, key).get("image") and not has_defaults:
            yield Finding(document, (*path, key), f"the {key} has no image", "add image")
    for number, output in items(mapping(template, "outputs"), "parameters"):
        if not output.keys() & {"value", "valueFrom"}:
            message = f"output parameter {output.get('name')!r} has no value"
            yield Finding(document, (*path, "outputs", "parameters", number), message, "add valueFrom")
    if "resource" in types:
        yield from _resource((*path, "resource"), document, mapping(template, "resource"))
    retries = mapping(template, "retryStrategy")
    yield from _choice(document, (*path, "retryStrategy", "retryPolicy"), retries.get("retryPolicy"), _RETRY_POLICIES)
    if isinstance(limit := retries.get("limit"), str) and not limit.isdigit() and "{{" not in limit:
        at = (*path, "retryStrategy", "limit")
        yield Finding(document, at, f"{limit!r} is not a number of retries", "write a number")
    if not (has_defaults or spec.get("podSpecPatch") or template.get("podSpecPatch")):
        yield from _mounts(document, path, template, spec)


def _mounts(
    document: Document, path: FieldPath, template: dict[str, Any], spec: Mapping[str, Any]
) -> Iterator[Finding]:
    claims = [mapping(each, "metadata") for _, each in items(spec, "volumeClaimTemplates")]
    volumes = [each for holder in (spec, template) for _, each in items(holder, "volumes")]
    known = [str(each.get("name")) for each in (*claims, *volumes)]
    for at, container in containers_of_template(template, path):
        places, mounts = Counter[str](), items(container, "volumeMounts")
        named = [((*at, "volumeMounts", number, "name"), str(mount.get("name"))) for number, mount in mounts]
        yield from unknown_names(document, [each for each in named if "{{" not in each[1]], known, "volume")
        for number, mount in mounts:
            places[str(mount.get("mountPath"))] += 1
            if places[str(mount.get("mountPath"))] == 2:
                path_twice = (*at, "volumeMounts", number, "mountPath")
                yield Finding(document, path_twice, "another volume is mounted here", "choose another path")


def _resource(path: FieldPath, document: Document, resource: Mapping[str, Any]) -> Iterator[Finding]:
    yield from _choice(document, (*path, "action"), resource.get("action"), _ACTIONS)
    manifest = resource.get("manifest")
    if not any(resource.get(key) for key in ("manifest", "manifestFrom", "flags")):
        yield Finding(document, path, "there is no manifest of the object", "add manifest")
    if isinstance(manifest, str) and "{{" not in manifest:
        try:
            yaml.safe_load(manifest)
        except yaml.YAMLError:
            yield Finding(document, (*path, "manifest"), "the manifest is not YAML", "correct it")


def _hooks(path: FieldPath, holder: Mapping[str, Any]) -> list[tuple[FieldPath, Any]]:
    hooks = mapping(holder, "hooks")
    return [((*path, "hooks", key, "template"), mapping(hook).get("template")) for key, hook in hooks.items()]


def _unknown_templates(
    document: Document, named: Iterable[tuple[FieldPath, Any]], known: Sequence[str]
) -> Iterator[Finding]:
    plain = [(path, name) for path, name in named if isinstance(name, str)]
    yield from unknown_names(document, [each for each in plain if "{{" not in each[1]], known, "template")


def _runs(
    document: Document, path: FieldPath, template: dict[str, Any], declared: Mapping[str, Sequence[tuple[int, Any]]]
) -> Iterator[Finding]:
    """The findings on the steps and tasks of a template. declared: template -> its input parameters."""
    tasks: list[Placed] = [
        ((*path, "dag", "tasks", number), task) for number, task in items(mapping(template, "dag"), "tasks")
    ]
    steps: list[Placed] = [
        ((*path, "steps", row, number), step)
        for row, group in enumerate(values(template, "steps"))
        for number, step in items({"row": group}, "row")
    ]
    yield from _twice(document, steps, "step")
    yield from _twice(document, tasks, "task")
    yield from _order(document, tasks)
    known = [str(each.get("name")) for _, each in (*tasks, *steps)]
    used = {name: at for at, text in _texts_in(template, path) for name in _OF_OTHERS.findall(text)}
    yield from unknown_names(document, [(at, name) for name, at in used.items()], known, "step or task")
    for place, each in (*tasks, *steps):
        name = each.get("template")
        yield from _unknown_templates(document, [((*place, "template"), name), *_hooks(place, each)], list(declared))
        loops = [key for key in _LOOPS if each.get(key) is not None]
        if len(loops) > 1:
            message = f"a step has one of {', '.join(_LOOPS)}, and {' and '.join(loops)} are given"
            yield Finding(document, (*place, loops[1]), message, "keep one")
        if not isinstance(name, str) or "{{" in name:
            continue
        given = [argument.get("name") for _, argument in items(mapping(each, "arguments"), "parameters")]
        needed = [wanted for _, wanted in declared.get(name, ()) if not wanted.keys() & _WITH_VALUE]
        if missing := [str(wanted.get("name")) for wanted in needed if wanted.get("name") not in given]:
            message = f"template {name!r} takes {', '.join(missing)}, and no argument gives it"
            yield Finding(document, place, message, "add arguments.parameters, or a default to the input")


def _order(document: Document, tasks: Sequence[Placed]) -> Iterator[Finding]:
    """The findings on what tasks wait for."""
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
        yield from unknown_names(document, awaited, known, "task")
        needs[str(task.get("name"))] = [name for _, name in awaited if name in known]
    if circle := dependency_cycle(needs):
        place = next(place for place, task in tasks if task.get("name") == circle[0])
        yield Finding(document, place, f"tasks wait in a circle: {shown_cycle(circle)}", "remove one dependency")


def _twice(document: Document, named: Sequence[Placed], what: str) -> Iterator[Finding]:
    counts = Counter[str]()
    for place, each in named:
        name = str(each.get("name"))
        counts[name] += 1
        if counts[name] == 2 and each.get("name"):
            yield Finding(document, (*place, "name"), f"the {what} {name!r} is here twice", "rename one of the two")


def _choice(document: Document, path: FieldPath, value: Any, allowed: Sequence[str]) -> Iterator[Finding]:
    if isinstance(value, str) and value and "{{" not in value and value not in allowed:
        help = suggestion(value, allowed, f"write {allowed[0]}")
        yield Finding(document, path, f"{path[-1]} is {value!r}, which Argo does not know", help)


def _unknown_parameters(document: Document, spec: dict[str, Any]) -> Iterator[Finding]:
    """Parameters of the workflow that its templates use, and that it does not have: at the first place of each."""
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
    """Names at their places that are none of those known."""
    for path, name in named:
        if name not in known:
            help = suggestion(name, known, "name one that is there")
            yield Finding(document, path, f"there is no {what} {name!r}", help)
