"""YAML text to plain data with positions, from libyaml's event stream.

Events show anchors and tags as written, need no recursion, and are ten times faster than a round-trip load
(docs/develop/decisions/0003-reading-yaml.md). Aliases and merge keys are expanded within limits.

Plain YAML scalars: their values in YAML 1.2 core, as ruamel.yaml resolves it, but for the spellings that Kubernetes
(YAML 1.1, then JSON) reads differently: these are named, and octal numbers are read as Kubernetes does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from yaml.cyaml import CParser
from yaml.error import YAMLError
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from compiler.diagnostics.diagnostic import Diagnostic, Position, Rule, declare_rule
from compiler.syntax.documents import FieldPath

NOT_FINITE = declare_rule("GP113", "error")
OCTAL_NUMBER = declare_rule("GP114", "warning")
BOOLEAN_WORD = declare_rule("GP115", "warning")
UNQUOTED_DATE = declare_rule("GP116", "info")

Scalar = str | int | float | bool | None

_CONSTANTS: dict[str, Scalar] = {"": None, "~": None}
for _word, _value in (("null", None), ("true", True), ("false", False)):
    _CONSTANTS |= dict.fromkeys((_word, _word.capitalize(), _word.upper()), _value)
_BOOLEAN_WORDS = frozenset(
    spelling for word in ("yes", "no", "on", "off", "y", "n") for spelling in (word, word.capitalize(), word.upper())
)
SPECIAL_FIRST_CHARACTERS = frozenset("-+.0123456789~nNtTfFyYoO")
"""With another first character an unquoted scalar is text."""
_INTEGER_PATTERN = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)\Z", re.ASCII)
_FLOAT_PATTERN = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9_]+(?:[eE][-+][0-9]+)?)\Z",
    re.ASCII,
)
_NOT_FINITE_PATTERN = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_OCTAL_PATTERN = re.compile(r"[-+]?0(?:o|_*[0-9])", re.ASCII)
_DATE_PATTERN = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:\Z|[Tt ])", re.ASCII)
_MAX_DIGITS = 400


def plain_scalar(text: str) -> tuple[Scalar, Rule | None]:
    """Return the value of an unquoted scalar, and the rule that its spelling violates, if any."""
    if (text and text[0] not in SPECIAL_FIRST_CHARACTERS) or len(text) > _MAX_DIGITS:
        return text, None
    return _special_scalar(text)


@lru_cache(maxsize=4096)
def _special_scalar(text: str) -> tuple[Scalar, Rule | None]:
    if text in _CONSTANTS:
        return _CONSTANTS[text], None
    if text in _BOOLEAN_WORDS:
        return text, BOOLEAN_WORD
    if _NOT_FINITE_PATTERN.match(text):
        return text, NOT_FINITE
    if _INTEGER_PATTERN.match(text):
        return _integer_scalar(text)
    if _FLOAT_PATTERN.match(text):
        return _float_scalar(text)
    if _DATE_PATTERN.match(text):
        return text, UNQUOTED_DATE
    return text, None


def _integer_scalar(text: str) -> tuple[Scalar, Rule | None]:
    digits = text.replace("_", "")
    if _OCTAL_PATTERN.match(text):
        return _octal_scalar(digits), OCTAL_NUMBER
    try:
        return int(digits, 0), None
    except ValueError:  # such as 0x_ or _ alone: no digits remain
        return text, None


def _octal_scalar(digits: str) -> Scalar:
    """As Go reads it: octal, or decimal where a digit is 8 or 9 (08 is a float there, and becomes 8)."""
    try:
        return int(digits.replace("0o", "0"), 8)
    except ValueError:
        return int(digits) if digits.lstrip("+-").isdigit() else digits


def _float_scalar(text: str) -> tuple[Scalar, Rule | None]:
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        return text, None
    return (value, None) if math.isfinite(value) else (text, NOT_FINITE)


Positions = dict[FieldPath, tuple[int, int]]

MAX_DEPTH = 64
MAX_VALUES = 200_000
MAX_ALIAS_VALUES = 20_000
"""Values that aliases and merge keys may add to one document."""

BROKEN_YAML = declare_rule("GP101", "error")
TAB_INDENT = declare_rule("GP102", "error")
DUPLICATE_KEY = declare_rule("GP103", "error")
TOO_DEEP = declare_rule("GP107", "error")
TOO_MANY_VALUES = declare_rule("GP108", "error")
BAD_ALIAS = declare_rule("GP109", "error")
EXPLICIT_TAG = declare_rule("GP110", "error")
YAML_DIRECTIVE = declare_rule("GP111", "error")
KEY_NOT_TEXT = declare_rule("GP112", "error")
BAD_MERGE = declare_rule("GP123", "error")

_CONTROL_CHARACTER = r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""Compiled where a text is broken: that takes 4 ms."""
_ODD_BLANK = re.compile("[\u00a0\u2000-\u200b\u3000]")
_SCALAR, _MAPPING, _SEQUENCE = range(3)


@dataclass(slots=True)
class _YamlNode:
    """One node of the YAML tree, with its position.

    node_type, value: _SCALAR with a plain value, _MAPPING with keys and values in turn, _SEQUENCE with nodes.
    is_merge_key: an unquoted <<.
    """

    node_type: int
    line: int
    column: int
    value: Any
    is_merge_key: bool = False


def _holds_two_objects(node: _YamlNode) -> bool:
    """Return whether a mapping is two objects, of which nothing divides the second from the first."""
    names = [key.value for key, _ in _pairs(node)]
    return all(names.count(name) > 1 for name in ("apiVersion", "kind"))


def _pairs(mapping: _YamlNode) -> Iterator[tuple[_YamlNode, _YamlNode]]:
    return zip(mapping.value[::2], mapping.value[1::2], strict=True)


class _RefusalError(Exception):
    """Ends the reading of one document."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic


class YamlReader:
    """Reads one YAML text: a document of a file, or a text embedded in one.

    line, column: position of the first character of `text` in the file. Sets `positions` (path -> line and column) and
    `error_positions`, and adds to `diagnostics`.
    """

    def __init__(self, file: str, line: int, text: str, diagnostics: list[Diagnostic], column: int = 1) -> None:
        self.file, self.line, self.text, self.diagnostics, self.column = file, line, text, diagnostics, column
        self.positions = Positions()
        self.error_positions: list[tuple[int, int]] = []
        self.value_count = self.alias_value_count = 0
        self.has_aliases = False  # or merge keys
        self.top_position = (line, column)

    def load_data(self) -> Iterator[Any]:
        """Yield the data of the text; nothing where the text is refused."""
        if self.text.startswith("%"):
            self.add_diagnostic(YAML_DIRECTIVE, self.line, 1, "directives are not supported", "remove the line")
            return
        try:
            root = self.node_tree()
            if root is not None:
                self.positions[()] = (root.line, root.column)
                yield self.plain_data(root, (), 0, 0)
        except _RefusalError as refused:
            self.diagnostics.append(refused.diagnostic)
        except YAMLError as problem:
            self.report_broken_yaml(problem)

    def add_diagnostic(
        self, rule: Rule, line: int, column: int, message: str, help: str, see: Position | None = None
    ) -> None:
        if rule.severity == "error":
            self.error_positions.append((line, column))
        self.diagnostics.append(rule.diagnostic(Position(self.file, line, column), message, help, see=see))

    def refusal(self, rule: Rule, node: _YamlNode, message: str, help: str) -> _RefusalError:
        return _RefusalError(rule.diagnostic(Position(self.file, node.line, node.column), message, help))

    def report_broken_yaml(self, problem: YAMLError) -> None:
        mark = getattr(problem, "problem_mark", None)
        if (opened := _late_quote(self.text, problem)) is not None:
            message = "the quotation mark that opens here is not closed where its value ends"
            line, column = self.line + opened.line, opened.column + self.column
            return self.add_diagnostic(BROKEN_YAML, line, column, message, "close it")
        if mark is None and (control := re.search(_CONTROL_CHARACTER, self.text)):
            row = self.text.count("\n", 0, control.start())
            column = control.start() - self.text.rfind("\n", 0, control.start())
            message = f"control character {ord(control.group()):#04x}"
            return self.add_diagnostic(BROKEN_YAML, self.line + row, column, message, "remove it")
        lines = self.text.split("\n")
        row = min(mark.line, len(lines) - 1) if mark is not None else 0
        column = (mark.column if mark is not None else 0) + self.column
        if not lines[row].strip():  # the end of the text: point behind the last character
            last = next((number for number in range(row, -1, -1) if lines[number].strip()), None)
            if last is not None:
                row, column = last, len(lines[last]) + self.column
        line = self.line + row
        if "\t" in re.match(r"[ \t]*", lines[row]).group():  # type: ignore[union-attr]  # matches the empty text too
            return self.add_diagnostic(
                TAB_INDENT, line, lines[row].index("\t") + 1, "a tab where YAML requires spaces", "indent with blanks"
            )
        for number in range(max(0, row - 1), row + 1):
            if found := _ODD_BLANK.search(lines[number].partition("#")[0]):
                message = f"a blank of another kind (U+{ord(found[0]):04X}), as in text of web pages and chats"
                return self.add_diagnostic(
                    BROKEN_YAML, self.line + number, found.start() + 1, message, "write a plain one"
                )
        if row and _MANY_DASHES.fullmatch(lines[row - 1]):
            message = "a line of more than three dashes separates no documents"
            return self.add_diagnostic(BROKEN_YAML, line - 1, self.column, message, "write ---")
        what = getattr(problem, "problem", None) or "the text cannot be read"
        where = getattr(problem, "context", None)
        return self.add_diagnostic(
            BROKEN_YAML,
            line,
            column,
            f"not valid YAML: {what}{f' ({where})' if where else ''}",
            _syntax_help(str(what)),
        )

    def node_tree(self) -> _YamlNode | None:
        """Return the tree of nodes of the event stream; None for an empty document."""
        root: _YamlNode | None = None
        anchors: dict[str, _YamlNode] = {}
        open_nodes: list[_YamlNode] = []
        next_event: Callable[[], Any] = CParser(self.text).get_event
        while (event_type := type(event := next_event())) is not StreamEndEvent:
            if event_type is ScalarEvent:
                node = self.scalar_node(event)
            elif event_type is MappingStartEvent or event_type is SequenceStartEvent:
                node = self.collection_node(event, _MAPPING if event_type is MappingStartEvent else _SEQUENCE)
            elif event_type is AliasEvent:
                self.has_aliases = True
                node = self.alias_target(event, anchors, open_nodes)
            else:
                if event_type is MappingEndEvent or event_type is SequenceEndEvent:
                    open_nodes.pop()
                continue
            if open_nodes:
                open_nodes[-1].value.append(node)
            elif root is None:
                root = node
            else:
                help = "put --- on a line that ends in a line feed"
                raise self.refusal(
                    BROKEN_YAML, node, "a second document begins without a line of its own for ---", help
                )
            if event_type is not AliasEvent:
                if event.anchor:
                    anchors[event.anchor] = node
                if event_type is not ScalarEvent:
                    self.refuse_depth(node, len(open_nodes))
                    open_nodes.append(node)
        return root

    def refuse_depth(self, node: _YamlNode, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise self.refusal(TOO_DEEP, node, f"nested more than {MAX_DEPTH} levels", "flatten the document")

    def collection_node(self, event: MappingStartEvent | SequenceStartEvent, node_type: int) -> _YamlNode:
        mark = event.start_mark
        node = _YamlNode(node_type, self.line + mark.line, mark.column + self.column, [])
        if event.tag is not None:
            self.refuse_tag(event.tag, node)
        return node

    def alias_target(self, event: AliasEvent, anchors: dict[str, _YamlNode], around: list[_YamlNode]) -> _YamlNode:
        known = anchors.get(event.anchor)
        if known is None or any(known is outer for outer in around):
            mark = event.start_mark
            here = _YamlNode(_SCALAR, self.line + mark.line, mark.column + self.column, None)
            raise self.refusal(
                BAD_ALIAS,
                here,
                f"no anchor &{event.anchor} is defined before this alias",
                "define the anchor earlier in this document",
            )
        return known

    def refuse_tag(self, tag: str, node: _YamlNode) -> None:
        raise self.refusal(
            EXPLICIT_TAG, node, f"explicit tag {tag!r}", "remove the tag; quote the value when it is text"
        )

    def scalar_node(self, event: ScalarEvent) -> _YamlNode:
        mark, text = event.start_mark, event.value
        line, column = self.line + mark.line, mark.column + self.column
        if event.tag is not None:
            self.refuse_tag(event.tag, _YamlNode(_SCALAR, line, column, text))
        if not event.implicit[0]:
            return _YamlNode(_SCALAR, line, column, text)
        is_merge_key = text == "<<"
        if is_merge_key:
            self.has_aliases = True
        value, problem = plain_scalar(text)
        node = _YamlNode(_SCALAR, line, column, value, is_merge_key)
        if problem is not None and not (problem is OCTAL_NUMBER and self.is_file_mode(mark.index)):
            shown = text if len(text) <= 40 else text[:37] + "..."
            self.add_diagnostic(
                problem,
                node.line,
                node.column,
                f"unquoted {shown}",
                f'write "{shown}" when it is text' + _SCALAR_HELP.get(problem.code, ""),
            )
        return node

    def is_file_mode(self, index: int) -> bool:
        """Return whether the value at this position is of a field named defaultMode or mode, which people write in
        octal."""
        return _FILE_MODE_KEY.search(self.text, max(0, index - 40), index) is not None

    def plain_data(self, node: _YamlNode, path: FieldPath, depth: int, from_alias: int) -> Any:
        """`node` as plain data; sets `positions`. from_alias: 1 inside the content of an alias, else 0."""
        self.value_count += 1
        if self.value_count > MAX_VALUES:
            raise self.refusal(
                TOO_MANY_VALUES,
                node,
                f"the document has more than {MAX_VALUES} values once aliases are expanded",
                "split it",
            )
        if node.node_type == _SCALAR:
            return node.value
        if depth >= MAX_DEPTH:
            raise self.refusal(
                TOO_DEEP, node, f"nested more than {MAX_DEPTH} levels once aliases are expanded", "flatten the document"
            )
        if node.node_type == _SEQUENCE:
            items = []
            for index, item in enumerate(node.value):
                at = (*path, index)
                self.positions[at] = (item.line, item.column)
                counted = self.has_aliases and self.count_alias_value(node, item, from_alias)
                items.append(self.plain_data(item, at, depth + 1, counted))
            return items
        return self.mapping_data(node, path, depth, from_alias)

    def count_alias_value(self, outer: _YamlNode, node: _YamlNode, from_alias: int) -> int:
        """1 for a value that an alias adds, which is counted against the limit, else 0. An aliased node has an earlier
        position than the node that holds it."""
        if not from_alias and (node.line, node.column) >= (outer.line, outer.column):
            return 0
        self.alias_value_count += 1
        if self.alias_value_count > MAX_ALIAS_VALUES:
            top = _YamlNode(_SCALAR, *self.top_position, None)
            raise self.refusal(
                TOO_MANY_VALUES,
                top,
                f"aliases add more than {MAX_ALIAS_VALUES} values to the document, the last of them here",
                "write the parts out",
            )
        return 1

    def mapping_data(self, node: _YamlNode, path: FieldPath, depth: int, from_alias: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        merged: list[_YamlNode] = []
        for key, value in _pairs(node):
            name = key.value
            if key.is_merge_key:
                merged += value.value if value.node_type == _SEQUENCE else [value]
                continue
            if not isinstance(name, str) or key.node_type != _SCALAR:
                shown = name if key.node_type == _SCALAR else ("a mapping" if key.node_type == _MAPPING else "a list")
                self.add_diagnostic(KEY_NOT_TEXT, key.line, key.column, f"the key {shown} is not text", "quote the key")
                continue
            at = (*path, name)
            if not path:
                self.top_position = key.line, key.column
            if name in out:
                see, is_object = Position(self.file, *self.positions[at]), not path and _holds_two_objects(node)
                message, help = f"the key {name!r} is here twice", "remove one of the two"
                if is_object:
                    message, help = "a second object begins here", "write --- on a line of its own before it"
                self.add_diagnostic(DUPLICATE_KEY, key.line, key.column, message, help, see)
                if is_object:
                    break  # what follows is of the second object
                continue
            self.positions[at] = (key.line, key.column)
            counted = self.has_aliases and self.count_alias_value(node, value, from_alias)
            out[name] = self.plain_data(value, at, depth + 1, counted)
        for key, value in self.merged_pairs(node, merged, 1):
            if (name := key.value) not in out:
                at = (*path, name)
                self.positions[at] = (key.line, key.column)
                out[name] = self.plain_data(value, at, depth + 1, self.count_alias_value(node, value, 1))
        return out

    def merged_pairs(
        self, node: _YamlNode, sources: list[_YamlNode], depth: int
    ) -> Iterator[tuple[_YamlNode, _YamlNode]]:
        """Yield the pairs that << adds to `node`, in order of precedence."""
        for source in sources:
            self.count_alias_value(node, source, 1)
            if source.node_type != _MAPPING:
                raise self.refusal(
                    BAD_MERGE, source, "<< merges something that is not a mapping", "give it an alias to a mapping"
                )
            if depth > MAX_DEPTH:
                raise self.refusal(
                    TOO_DEEP, node, f"merge keys nest more than {MAX_DEPTH} levels", "flatten the document"
                )
            below: list[_YamlNode] = []
            for key, value in _pairs(source):
                if key.is_merge_key:
                    below += value.value if value.node_type == _SEQUENCE else [value]
                elif key.node_type == _SCALAR and isinstance(key.value, str):
                    yield key, value
            yield from self.merged_pairs(node, below, depth + 1)


_FILE_MODE_KEY = re.compile(r"""\b(?:defaultMode|mode)["']?\s*:\s*\Z""")
_SCALAR_HELP = {
    OCTAL_NUMBER.code: ", or a number without leading zeros",
    BOOLEAN_WORD.code: ", true or false when it is not",
    NOT_FINITE.code: ", a finite number when it is not",
}


_FIELD_LINE = re.compile(r"\n\s*(- )?[\w./-]+:(\s|\Z)")


def _late_quote(text: str, problem: YAMLError) -> Any:
    """Return the mark of a quotation mark that is closed nowhere, or so late that fields of other lines are in the
    quotes; None where it is not the cause of the problem."""
    if "quoted scalar" in str(getattr(problem, "context", "")):
        return getattr(problem, "context_mark", None)
    found, parser = None, CParser(text)
    try:
        while type(event := parser.get_event()) is not StreamEndEvent:
            if type(event) is ScalarEvent and event.style in ("'", '"'):
                found = event
    except YAMLError:
        pass
    mark = getattr(problem, "problem_mark", None)
    if found is None or mark is None or found.end_mark.line != mark.line:
        return None
    start, end = found.start_mark, found.end_mark
    return start if _FIELD_LINE.search(text, start.index, end.index) else None


_MANY_DASHES = re.compile(r"-{4,}\s*(#.*)?")


def _syntax_help(what: str) -> str:
    if "mapping values" in what:
        return "quote a value that holds a colon followed by a blank, or correct the indentation"
    if "cannot start any token" in what:
        return "quote a value that begins with @, ` or %"
    if "expected ',' or" in what:
        return "close the bracket, or separate the items by commas"
    return "check the indentation and the brackets around this line"
