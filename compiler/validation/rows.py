"""Rules that are rows of `rules.toml`, whose head documents the rows, and of `pods.toml`."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

from compiler.diagnostics.diagnostic import Severity, declare_rule, did_you_mean, suggestion, to_write
from compiler.fields.texts import dotted_path, short_repr
from compiler.fields.times import is_go_duration
from compiler.openapi.shape import Flaw
from compiler.syntax.documents import FieldPath
from compiler.syntax.paths import EACH_ENTRY, EACH_ITEM, Path, found_paths, parse_path, value_at
from compiler.validation import names
from compiler.validation.containers import claim, field_path, lost_units, relative_path, resources
from compiler.validation.judge import NODE_OPERATORS, Judge, expressions, label_selector, labels, mapping
from compiler.validation.schedules import batch_job, exit_codes, schedule, time_zone

UNREADABLE_IMAGE = declare_rule("GP246", "warning")

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_DIGEST = r"(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})"
_TAIL = rf"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@{_DIGEST})?"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*{_TAIL}", re.ASCII)
_REGISTRY = re.compile(_HOST, re.ASCII)
_PARAMETER = re.compile(r"\{\{|\$\(|\A\Z")
_IDENTIFIER = re.compile(r"[a-f0-9]{64}", re.ASCII)


def image(judge: Judge, text: Any, path: FieldPath) -> None:
    """Judge an image. The API server refuses one with blanks around it; an operator fills in a parameter."""
    if isinstance(text, str) and text.strip() == text and not _PARAMETER.search(text) and not is_image(text):
        help = "write the image in lower-case letters" if is_image(text.lower()) else "write registry/repository:tag"
        message = f"{dotted_path(path)}: no kubelet can pull {short_repr(text)}"
        judge.take([Flaw(path, UNREADABLE_IMAGE, message, help)])


def is_image(text: str) -> bool:
    """Return whether a kubelet reads the text as an image (github.com/distribution/reference, normalize.go)."""
    registry, slash, repository = text.partition("/")
    if slash and (registry == "localhost" or re.search("[.:A-Z]", registry)):
        return bool(_REGISTRY.fullmatch(registry) and _REPOSITORY.fullmatch(repository))
    return bool(_REPOSITORY.fullmatch(text)) and not _IDENTIFIER.fullmatch(text)


Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Breach:
    """A breach of a row's rule. severity: replaces that of the code."""

    path: FieldPath
    message: str
    help: str
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """A part of an object (`root`) at a path."""

    root: Any
    path: FieldPath
    value: Any

    def below(self, path: str) -> Iterator[_Place]:
        """Yield the parts at a path below; itself at an empty one."""
        if not path:
            yield self
            return
        steps, leads_to_several = _steps(path)
        if not isinstance(self.value, dict) or self.value.get(steps[0]) is None:
            return  # at once: most rows are about fields that an object does not have
        if not leads_to_several:
            if (value := _value(self.value, steps)) is not None:
                yield _Place(self.root, self.path + steps, value)
        else:
            for at in found_paths(self.value, steps):
                value = value_at(self.value, at)
                yield _Place(self.root, self.path + at, {} if value is None else value)

    def read(self, path: str) -> Any:
        """Return the value at a path from here, from the top of the object if it begins with a slash: a list if several
        parts are possible."""
        if path.startswith("/"):
            return _Place(self.root, (), self.root).read(path[1:])
        steps, leads_to_several = _steps(path)
        return [found.value for found in self.below(path)] if leads_to_several else _value(self.value, steps)


@cache
def _steps(path: str) -> tuple[Path, bool]:
    """Return the path, and whether it may lead to several places."""
    return parse_path(path) if path else (), EACH_ITEM in path or EACH_ENTRY in path


def _value(value: Any, steps: Path) -> Any:
    for step in steps:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


@cache
def _tables() -> Mapping[str, list[tuple[str, Row]]]:
    """Kind ("Kind.group") -> where its rules begin, and the rules."""
    found: dict[str, list[tuple[str, Row]]] = {}
    texts = [(files("compiler.validation") / name).read_text("utf-8") for name in ("rules.toml", "pods.toml")]
    for table in (table for text in texts for table in tomllib.loads(text)["rules"]):
        for kind_key, begins in table["kinds"].items():
            places = begins if isinstance(begins, list) else [begins]
            found.setdefault(kind_key, []).extend((place, table) for place in places)
    return found


def _rules_of(kind_key: str, around: _Place) -> Iterator[tuple[_Place, Row]]:
    places: dict[str, list[_Place]] = {}  # many tables begin at the same ones
    for begins, table in _tables().get(kind_key, ()):
        if begins not in places:
            places[begins] = list(around.below(begins))
        for place in places[begins]:
            if "if" not in table or _holds(table["if"], place):
                yield place, table


def judge_rows(judge: Judge, kind_key: str, data: dict[str, Any], path: FieldPath = ()) -> None:
    """Apply the rows on values to an object of a kind ("Kind.group"), or to a part of one at this path."""
    _judge_place(judge, kind_key, _Place(data, path, data))


def _judge_place(judge: Judge, kind_key: str, around: _Place) -> None:
    for place, table in _rules_of(kind_key, around):
        for name, rules in table.items():
            if (judge_rules := _JUDGED.get(name)) is not None:
                judge_rules(judge, place, rules)


def _bounds(judge: Judge, place: _Place, rules: list[list[str]]) -> None:
    for path, lower, upper in rules:
        for found in place.below(path):
            least, most = found.read(lower), found.read(upper)
            if isinstance(least, int) and isinstance(most, int) and least > most > 0:
                at = (*found.path, *parse_path(lower))
                judge.contradiction(at, f"{least} is above {upper} {most}", f"lower it, or raise {upper}")


def _topology(judge: Judge, topology: Any, path: FieldPath) -> None:
    if mapping(topology).get("mode") != "soft":  # a soft one of tier 0 asks for none
        judge.within((*path, "highestTierAllowed"), mapping(topology).get("highestTierAllowed"), 1)


def _unique(judge: Judge, place: _Place, rules: Mapping[str, str]) -> None:
    seen: dict[str, set[Any]] = {what: set() for what in rules.values()}
    for path, what in rules.items():
        for found in place.below(path):
            judge.unique(found.path, found.value, seen[what], what)


def _needs(judge: Judge, place: _Place, rules: Mapping[str, list[str]]) -> None:
    for path, fields in rules.items():
        for found in place.below(path):
            for field in fields if isinstance(found.value, dict) else ():
                if not found.value.get(field):
                    judge.missing((*found.path, field))


def _needed(judge: Judge, place: _Place, rules: Mapping[str, str]) -> None:
    for path, form in rules.items():
        around, dot, last = path.rpartition(f"{EACH_ITEM}.")
        for holder in place.below(f"{around}{EACH_ITEM}" if dot else ""):
            for at, value in _values(holder, last) if isinstance(holder.value, dict) else ():
                judge.name(at, value, getattr(names, form), required=True)


def _exactly_one(judge: Judge, place: _Place, rules: Mapping[str, list[str]]) -> None:
    for what, fields in rules.items():
        if sum(place.read(field) is not None for field in fields) != 1:
            known = " and ".join(fields) if len(fields) == 2 else ", ".join(fields)
            judge.contradiction(place.path, f"not exactly one {what} is given", f"give one of {known}")


def _parts(judge: Judge, place: _Place, rules: Mapping[str, str]) -> None:
    for path, kind_key in rules.items():
        for found in place.below(path):
            _judge_place(judge, kind_key, found)


def _excluded(judge: Judge, place: _Place, rows: list[Row]) -> None:
    for breach in (breach for row in rows for breach in _breaches(row, place)):
        judge.contradiction(breach.path, breach.message, breach.help)


def _missing(judge: Judge, place: _Place, rows: list[Row]) -> None:
    for breach in (breach for row in rows for breach in _breaches(row, place)):
        judge.missing(breach.path, breach.help or "add it")


_JudgeRules = Callable[[Judge, _Place, Any], None]


def _of_values(judge_value: Callable[[Judge, FieldPath, Any, Any], None]) -> _JudgeRules:
    def judge_all(judge: Judge, place: _Place, rules: Row) -> None:
        for path, wanted in rules.items():
            for found in place.below(path):
                judge_value(judge, found.path, found.value, wanted)

    return judge_all


def _of_parts(judge_part: Callable[[Judge, Any, FieldPath], object]) -> _JudgeRules:
    def judge_all(judge: Judge, place: _Place, paths: list[str]) -> None:
        for found in (found for path in paths for found in place.below(path)):
            judge_part(judge, found.value, found.path)

    return judge_all


def _duration(judge: Judge, place: _Place, paths: list[str]) -> None:
    """Times that Volcano's webhook reads: numbers with units."""
    for found in (found for path in paths for found in place.below(path)):
        if isinstance(found.value, str) and not is_go_duration(found.value):
            judge.contradiction(found.path, f"{found.value!r} is not a time", "write like 90s, 30m or 1h30m")


_JUDGED: Mapping[str, _JudgeRules] = {
    "amounts": _of_parts(lost_units),
    "bounds": _bounds,
    "choices": _of_values(lambda judge, path, value, allowed: judge.choice(path, value, tuple(allowed))),
    "batch_jobs": _of_parts(batch_job),
    "claims": _of_parts(lambda judge, part, path: claim(judge, mapping(part, "spec"), (*path, "spec"))),
    "durations": _duration,
    "exactly_one": _exactly_one,
    "excluded": _excluded,
    "exit_codes": _of_parts(exit_codes),
    "field_paths": _of_parts(field_path),
    "images": _of_parts(image),
    "labels": _of_parts(labels),
    "missing": _missing,
    "names": _of_values(lambda judge, path, value, form: judge.name(path, value, getattr(names, form))),
    "needed": _needed,
    "needs": _needs,
    "node_expressions": _of_parts(lambda judge, term, path: expressions(judge, term, path, NODE_OPERATORS)),
    "parts": _parts,
    "ranges": _of_values(lambda judge, path, value, ends: judge.within(path, value, *ends)),
    "relative": _of_parts(relative_path),
    "resources": _of_parts(resources),
    "schedules": _of_parts(schedule),
    "selectors": _of_parts(label_selector),
    "time_zones": _of_parts(time_zone),
    "topologies": _of_parts(_topology),
    "unique": _unique,
}


def breaches(kind_key: str, data: dict[str, Any]) -> Iterator[Breach]:
    """Yield what operators refuse, or ignore, of an object of a kind ("Kind.group") that its schema allows."""
    for place, table in _rules_of(kind_key, _Place(data, (), data)):
        for row in table.get("refused", ()):
            yield from _breaches(row, place)
        for row in table.get("references", ()):
            yield from _missing_names(row, place)


def _breaches(row: Row, place: _Place) -> Iterator[Breach]:
    written = row.get("at", "")
    for holder in place.below(row.get("of", "")):
        if not isinstance(holder.value, dict):
            continue
        before: list[Any] = []
        for path in written if isinstance(written, list) else [written]:
            for at, value in _values(holder, path):
                is_new = "repeated" in row and (not value or value not in before)
                before.append(value)
                if is_new or not _is_foreign(row, value) or ("is" in row and not _is(row["is"], value, holder)):
                    continue
                if "if" not in row or _holds(row["if"], holder):
                    message = _filled(row.get("message", ""), holder, at)
                    yield Breach(at, message, _help(row, value, holder, at), row.get("severity"))


def _values(holder: _Place, path: str) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the values of a path, or the keys at its end; None for an absent value unless several are possible."""
    steps, leads_to_several = _steps(path)
    if leads_to_several:
        is_key = path.endswith(EACH_ENTRY)
        yield from ((found.path, found.path[-1] if is_key else found.value) for found in holder.below(path))
    else:
        yield holder.path + steps, _value(holder.value, steps)


def _is_foreign(row: Row, value: Any) -> bool:
    if "nearly" in row:
        return value not in row["nearly"] and bool(did_you_mean(str(value), row["nearly"]))
    return "among" not in row or (isinstance(value, str) and value not in row["among"])


def _help(row: Row, value: Any, holder: _Place, at: FieldPath) -> str:
    help = _filled(row.get("help", ""), holder, at)
    if (known := row.get("among") or row.get("nearly")) is not None:
        return suggestion(str(value), known, help)
    if (written := row.get("write")) is None:
        return help
    return to_write(_filled(written, holder, at) if isinstance(written, str) else written, help=help)


def _filled(text: str, holder: _Place, at: FieldPath) -> str:
    """Return the text with the values at the paths in it: {} for the value at fault, {key} for its key, {keys} for
    those in it."""

    def spelled(found: re.Match[str]) -> str:
        path = found[1]
        value = value_at(holder.value, at[len(holder.path) :])
        if path == "keys":
            return " and ".join(_given(value))
        if path:
            value = at[-1] if path == "key" else len(value) if path == "size" else holder.read(path)
        return repr(value) if found[2] else str(value)

    return re.sub(r"\{([^{}!]*)(!r)?\}", spelled, text)


def _missing_names(row: Row, place: _Place) -> Iterator[Breach]:
    """Names, or keys of a mapping, that are not among those to which they refer."""
    if not _holds(row.get("if", {}), place):
        return
    known = [str(found.value) for found in place.below(row["to"])]
    for path in row["from"]:
        is_key = path.endswith(EACH_ENTRY)
        for found in place.below(path):
            name = found.path[-1] if is_key else found.value
            if isinstance(name, str) and name not in known and _is(row.get("is", {}), name, place):
                help = suggestion(name, known, "name one that is there")
                yield Breach(found.path, f"there is no {row['what']} {name!r}", help)


def _given(value: Any) -> list[Any]:
    """Return the keys of a mapping with a value, or the items of a list."""
    return [key for key, each in value.items() if each is not None] if isinstance(value, dict) else value


# --- conditions


def _holds(conditions: Row, holder: _Place) -> bool:
    return all(_is(test, holder.read(path), holder) for path, test in conditions.items())


def _is(test: Any, value: Any, holder: _Place) -> bool:
    if isinstance(test, bool):
        return bool(value) is test
    if isinstance(test, list):
        return value in test
    return all(_TESTS[name](value, wanted, holder) for name, wanted in test.items())


def _differs(value: Any, wanted: Any, holder: _Place, sign: Literal[1, -1]) -> bool:
    """Return whether a number lies on one side of another, which may be that at a path."""
    other = holder.read(wanted) if isinstance(wanted, str) else wanted
    return isinstance(value, int) and isinstance(other, int) and sign * (value - other) > 0


def _is_yaml(text: str, wanted: str) -> bool:
    try:
        return isinstance(yaml.safe_load(text) or {}, dict) or wanted != "mapping"
    except yaml.YAMLError:
        return False


def _is_address(value: Any) -> bool:
    """Return whether the API server takes it for an IP address: leading zeros pass."""
    text = str(value)
    try:
        ipaddress.ip_address(text if ":" in text else re.sub(r"(?<![0-9])0+(?=[0-9])", "", text))
    except ValueError:
        return False
    return True


_TESTS: Mapping[str, Callable[[Any, Any, _Place], bool]] = {
    "address": lambda value, wanted, holder: _is_address(value) is wanted,
    "above": lambda value, wanted, holder: _differs(value, wanted, holder, 1),
    "below": lambda value, wanted, holder: _differs(value, wanted, holder, -1),
    "contains": lambda value, wanted, holder: wanted in (value if isinstance(value, list) else [value]),
    "differs": lambda value, wanted, holder: value != holder.read(wanted),
    "given": lambda value, wanted, holder: (value is not None) is wanted,
    "lacks": lambda value, wanted, holder: isinstance(value, list) and not any(each in value for each in wanted),
    "like": lambda value, wanted, holder: isinstance(value, str) and re.fullmatch(wanted, value) is not None,
    "listed": lambda value, wanted, holder: any(
        value == found for path in wanted for _, found in _values(holder, path)
    ),
    "no_yaml": lambda value, wanted, holder: isinstance(value, str) and not _is_yaml(value, wanted),
    "longer": lambda value, wanted, holder: isinstance(value, dict | list) and len(_given(value)) > wanted,
    "not": lambda value, wanted, holder: value not in wanted,
    "single": lambda value, wanted, holder: (isinstance(value, list) and len(value) == 1) is wanted,
    "unlike": lambda value, wanted, holder: value is not None and re.fullmatch(wanted, str(value)) is None,
}
