"""The pages of the reference that are made from the code: commands, codes, objects, conditions, metrics, Volcano's
plugins, the formulas of the model.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import click

from bench.history import history_page, read_runs
from compiler.checks.check import all_rules
from compiler.cli.root import cli
from compiler.diagnostics.diagnostic import Rule
from compiler.explain.catalogue import REASONS, REPAIRS, entries_by_code, job_text, with_names
from compiler.explain.statements import Entry
from compiler.outputs import OUTPUTS
from compiler.views.reference import reference_text
from compiler.views.schema import (
    CLUSTER_ANNOTATIONS,
    JOB_ANNOTATIONS,
    OBJECT_ANNOTATIONS,
    QUEUE_ANNOTATIONS,
    output_schema,
)
from compiler.volcano.arguments import FIRST_VERSION, MISTYPES, OWNERS
from compiler.volcano.nested_arguments import table_rows
from compiler.volcano.plugin_plans import PLUGIN_PLANS
from reconciler.report.metrics import Metrics
from reconciler.report.status_text import CONDITION_TYPES, condition_sentence
from solver.models import (
    constraints,
    device_slots,
    evictions,
    identical_pods,
    objectives,
    placement_cost,
    pod_rule_rows,
)
from solver.preemption import bounds
from tests.builders.cases import CASES, Case

CODES = "reference/codes"
COMMANDS = "reference/commands"
MODELS = (constraints, pod_rule_rows, device_slots, objectives, placement_cost, identical_pods, evictions, bounds)
CODE_RANGES = (
    ("GP1", "Reading files"),
    ("GP2", "Shape and types of one document"),
    ("GP3", "Rules inside and across objects"),
    ("GP4", "Scheduler configuration"),
    ("GP5", "Binding and placement"),
)
NESTED_MISTYPES = {
    "decoded": "text ends the scheduler, again after each restart; a fraction is cut",
    "zero": "a value of another type counts as 0",
}
OWN_KINDS = ("Cluster", "NodePool", "SchedulerConfiguration")


def reference_pages() -> dict[str, str]:
    """Return the generated pages: path below docs/ -> Markdown."""
    return {
        **command_pages(),
        **code_pages(),
        "reference/objects.md": objects_page(),
        "reference/json-fields.md": outputs_page(),
        "reference/conditions.md": conditions_page(),
        "reference/metrics.md": metrics_page(),
        "reliability/performance.md": history_page(read_runs()),
        "reference/volcano-plugins.md": plugins_page(),
        "develop/rows.md": rows_page(),
        "reference/scheduler-arguments.md": arguments_page(),
    }


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


# ---- commands


def command_pages() -> dict[str, str]:
    import_module("reconciler.cli")  # adds its commands to those of the compiler
    names = cli.list_commands(click.Context(cli))
    pages, rows = {}, []
    for name in names:
        with click.Context(cli, info_name="gangplan", resilient_parsing=True) as parent:
            command = cli.get_command(parent, name)
            if command is None:
                continue
            with click.Context(command, parent=parent, info_name=name, resilient_parsing=True) as context:
                pages[f"{COMMANDS}/{name}.md"] = _command_page(command, context)
        rows.append((f"[`gangplan {name}`]({name}.md)", cli.lazy_commands[name][1]))
    defaults = "[variables or gangplan.toml](../repository.md#defaults-of-options)"
    text = f"Defaults of options may come from {defaults}.\n"
    pages[f"{COMMANDS}/index.md"] = f"# Commands\n\n{text}\n{table(('command', 'what it does'), rows)}"
    return pages


def _command_page(command: click.Command, context: click.Context) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    records = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    options = table(("option", "what it does"), ((f"`{names}`", _escaped(text)) for names, text in records))
    about = _escaped(inspect.cleandoc(command.help or "").replace("\b", ""))
    return f"# gangplan {context.info_name}\n\n```console\n{context.command_path} {usage}\n```\n\n{about}\n\n{options}"


def _escaped(text: str) -> str:
    """Text without what Markdown would take for HTML or a link."""
    return text.replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*")


# ---- codes


def code_pages() -> dict[str, str]:
    rules, reasons, repairs = all_rules(), entries_by_code(REASONS), entries_by_code(REPAIRS)
    pages = {f"{CODES}/{code}.md": _rule_page(rule, _example(code)) for code, rule in rules.items()}
    pages |= {f"{CODES}/{code}.md": _reason_page(code, entry) for code, entry in reasons.items()}
    pages |= {f"{CODES}/{code}.md": _repair_page(code, entry) for code, entry in repairs.items()}
    pages[f"{CODES}/index.md"] = _code_index(rules, reasons, repairs)
    return pages


def _example(code: str) -> Case | None:
    """Return the shortest failing case of the code, one that fails for nothing else where there is one."""

    def rank(case: Case) -> tuple[bool, int]:
        return {found for *_, found in case.expected} != {code}, sum(map(len, case.shown.values()))

    return min((case for case in CASES if case.fails and case.code == code), key=rank, default=None)


def _code_index(rules: Mapping[str, Rule], *entries: Mapping[str, Entry[Any]]) -> str:
    rows = ["# Codes\n", "A code never changes its meaning. `gangplan explain GP301` prints the same as its page.\n"]
    for prefix, title in CODE_RANGES:
        found = [(f"[{code}]({code}.md)", rule.severity, rule.title) for code, rule in rules.items() if prefix in code]
        rows += [f"## {prefix}xx {title}\n", table(("code", "severity", "what is wrong"), found)]
    titles = ("GWxxx Why a job waits", "GRxxx What would help")
    for title, known in zip(titles, entries, strict=True):
        rows += [f"## {title}\n", table(("code", ""), ((f"[{code}]({code}.md)", known[code].title) for code in known))]
    rows.append("How they are chosen: [reasons and repairs](../reasons.md).\n")
    return "\n".join(rows)


def _rule_page(rule: Rule, example: Case | None) -> str:
    why, _, fix = rule.text.partition("Fix: ")
    rows = [f"# {rule.code} {rule.title}\n", f"Severity: {rule.severity}\n", f"{_escaped(why.strip())}\n"]
    if fix:
        rows += ["## Fix\n", f"{_escaped(fix[:1].upper() + fix[1:])}\n"]
    if example:
        rows += ["## Example\n", f"{_escaped(example.title[:1].upper() + example.title[1:])}:\n"]
        rows += [f"```yaml title={name!r}\n{text.rstrip()}\n```\n" for name, text in example.shown.items()]
    return "\n".join(rows)


def _reason_page(code: str, entry: Entry[Any]) -> str:
    rows = [f"# {code} {entry.title}\n", "A reason why a job waits.\n", f"> {_quoted(entry.texts[0])}\n"]
    rows += [f"Or, where that is why:\n\n> {_quoted(text)}\n" for text in entry.special_texts]
    rows += [f"Or, when waiting cannot help:\n\n> {_quoted(text)}\n" for text in entry.never_texts[:1]]
    return "\n".join([*rows, "## Fix\n", f"{entry.remedy}\n", "[How reasons are chosen](../reasons.md)\n"])


def _repair_page(code: str, entry: Entry[Any]) -> str:
    what = "A change that was tried: with it the job starts.\n"
    rows = [f"# {code} {entry.title}\n", what, f"> {_quoted(job_text(entry))}\n"]
    return "\n".join([*rows, "[How repairs are chosen](../reasons.md)\n"])


def _quoted(text: str) -> str:
    return with_names(text, "*{}*")


# ---- the model


def rows_page() -> str:
    rows = ["# Formulas\n", "From the docstrings of the solver. The letters are those of [the model](model.md).\n"]
    for module in MODELS:
        rows += [f"## {module.__name__}\n", _quoted_docstring(module)]
        for name, found in vars(module).items():
            if getattr(found, "__module__", "") == module.__name__ and re.search("[<>]=| = |sum_", found.__doc__ or ""):
                rows += [f"### {name.strip('_')}\n", _quoted_docstring(found)]
    return "\n".join(rows)


def _quoted_docstring(documented: ModuleType | type) -> str:
    return f"```text\n{inspect.getdoc(documented)}\n```\n"


# ---- objects, conditions, metrics


def objects_page() -> str:
    rows = ["# Objects of gangplan\n", "`gangplan schema KIND` prints the JSON Schema of a kind.\n"]
    for kind in OWN_KINDS:
        rows += [f"## {kind}\n", f"```text\n{(reference_text(f'{kind}.spec') or '').rstrip()}\n```\n"]
    owners = {"jobs": JOB_ANNOTATIONS, "queues": QUEUE_ANNOTATIONS, "the Cluster": CLUSTER_ANNOTATIONS}
    for owner, texts in {**owners, "any object": OBJECT_ANNOTATIONS}.items():
        rows += [f"## Annotations of {owner}\n", table(("annotation", ""), _named(texts.items()))]
    return "\n".join(rows)


def outputs_page() -> str:
    rows = ["# JSON fields\n", "What holds for all of them, and the schemas: [JSON outputs](outputs.md).\n"]
    shown = set[str]()
    for name in OUTPUTS:
        schema = output_schema(name)
        rows += [f"## gangplan {name} -o json\n", f"{schema.get('description', '')}\n", _fields_table(schema)]
        for part, found in schema.get("$defs", {}).items():
            if part not in shown:
                rows += [f"### {part}\n", f"{found.get('description', '')}\n", _fields_table(found)]
            shown.add(part)
    return "\n".join(rows)


def _fields_table(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (f"`{name}`" + ("" if name in required else " ?"), _type_text(field), field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]
    return table(("field (? may be absent)", "type", ""), rows)


def _type_text(field: Mapping[str, Any]) -> str:
    """Return "list of GangEntry", "map of integer", "string or null"."""
    if reference := field.get("$ref"):
        return str(reference).rpartition("/")[2]
    if alternatives := field.get("anyOf"):
        return " or ".join(dict.fromkeys(map(_type_text, alternatives)))
    if values := field.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    if "const" in field:
        return f"`{field['const']}`"
    match field.get("type"):
        case "array":
            return f"list of {_type_text(field['items'])}"
        case "object":
            values = field.get("additionalProperties")
            return f"map of {_type_text(values)}" if isinstance(values, Mapping) else "object"
        case found:
            return str(found or "any value")


def conditions_page() -> str:
    rows = [(name, condition_sentence(name, True), condition_sentence(name, False)) for name in CONDITION_TYPES]
    about = "`gangplan status` shows them, and `gangplan_condition` counts them.\n"
    return f"# Conditions\n\n{about}\n{table(('condition', 'True', 'False'), rows)}"


def metrics_page() -> str:
    found = sorted(Metrics().registry.collect(), key=lambda metric: metric.name)
    suffixes = {"counter": "_total"}
    rows = [(f"`{each.name}{suffixes.get(each.type, '')}`", each.type, each.documentation) for each in found]
    about = "`gangplan reconcile --listen :8080` serves them at `/metrics`.\n"
    return f"# Metrics\n\n{about}\n{table(('metric', 'type', ''), rows)}"


def _named(texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(f"`{name}`", text) for name, text in texts]


# ---- the scheduler


def arguments_page() -> str:
    """Return the page of the reference with every argument."""
    rows = [
        "# Arguments of Volcano's scheduler",
        "",
        "All actions and plugins of Volcano 1.15 and 1.16; what only 1.16 has is marked. "
        "`gangplan explain binpack.weight` shows one argument. "
        "Sources are below pkg/scheduler; those of 1.15.1 were run, those of 1.16 were only read.",
    ]
    for owner in OWNERS.values():
        heading = f"## {'Action' if owner.is_action else 'Plugin'} {owner.name}{_since_text(owner.since)}"
        rows += ["", heading, "", f"Source: {owner.source}."]
        if owner.arguments:
            rows += ["", "| argument | type | default | range | meaning | mistyped |", "|---|---|---|---|---|---|"]
        for one in owner.arguments:
            meaning = one.meaning + ("" if owner.since == one.since else _since_text(one.since))
            cells = (f"`{one.name}`", one.type_name, one.default, one.allowed, meaning, one.mistype)
            rows.append(f"| {' | '.join(cells)} |")
        rows += _nested_rows(owner.name)
    rows += ["", "## metrics", "", "Source: cache/cache.go, metrics/source.", *_nested_rows("metrics")]
    mistypes = "; ".join(f"*{word}*: {text}" for word, text in (MISTYPES | NESTED_MISTYPES).items())
    return "\n".join([*rows, "", f"Mistyped: {mistypes}."]) + "\n"


def _since_text(since: int) -> str:
    """ " (1.16)" of what the first known version does not have."""
    return "" if since == FIRST_VERSION else f" (1.{since})"


def _nested_rows(owner: str) -> list[str]:
    """Return the table of values inside the arguments of an action or a plugin; empty for most."""
    found, of, argument = [], "", ""
    for cells in table_rows("nested_arguments.table"):
        if len(cells) == 1:
            of, _, argument = cells[0].partition(" ")
        if len(cells) == 1 or of != owner:
            continue
        path, type_name, default, bounds, mistype, meaning = cells
        path = path.replace("{}", ".<key>")
        name = f"{argument}{'' if path[0] in '[.' else '.'}{path}"
        low, _, high = bounds.rstrip("!").partition("..")
        allowed = (f"{low} to {high}" if high else f"{low} or more") if low else ""
        shown = name.removeprefix("metrics.") if owner == "metrics" else name
        found.append(f"| `{shown}` | {type_name} | {default} | {allowed} | {meaning} | {mistype} |")
    header = ["", "| inside | type | default | range | meaning | mistyped |", "|---|---|---|---|---|---|"]
    return [*header, *found] if found else []


def plugins_page() -> str:
    """Return the page of the reference with every plugin."""
    rows = [
        "# What Volcano's plugins mean for a plan",
        "",
        "All plugins of Volcano 1.15 and 1.16. "
        "Where Volcano may decide differently than the plan, `check` warns of it (GP430) at the plugin's line, once.",
        "",
        "| plugin | in the plan | GP430 warns that | where |",
        "|---|---|---|---|",
    ]
    for name, plan in PLUGIN_PLANS.items():
        for number, found in enumerate(plan.differences or (None,)):
            shown = (f"`{name}`", plan.planned) if number == 0 else ("", "")
            differs = (found.text, found.when) if found else ("", "")
            rows.append(f"| {' | '.join((*shown, *differs))} |")
    return "\n".join(rows) + "\n"
