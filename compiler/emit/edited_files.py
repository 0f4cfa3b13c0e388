"""Edits of fields written into the files of a repository, among them the fixes of findings.

A value, a key or an item is put into the text where its node is; comments, anchors, quotes and line ends stay. The
result is read again and used only if it has exactly the wanted content. An uncertain edit (an alias, a block scalar, a
generated file) is refused and not guessed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from compiler.diagnostics.diagnostic import Diagnostic, Edit, TextEdit
from compiler.emit.block import scalar_text, yaml_lines
from compiler.emit.rewrite import insertion_point, line_starts
from compiler.repository.kustomize import BUILT_MARK
from compiler.syntax.documents import Document, DocumentIdentity, FieldPath
from compiler.syntax.edits import FieldEdit, Removal, with_edits
from compiler.syntax.parse import ParsedFile, parse_file
from compiler.syntax.paths import value_at

_MARK = "\ufeff"
_PROPERTY = re.compile(r"&[^\s,\[\]{}]+\s+")
_PLAIN_QUANTITY = re.compile(r"\d+(?:\.\d+)?(?:[mkMGTPE]|[KMGTPE]i|[hs])")
_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\n]*|\r)?(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class _Splice:
    """Replaces the file's text from `start` to `end` by `text`."""

    start: int
    end: int
    text: str


class _RefusedError(Exception):
    """An edit that cannot be written for certain."""


def edited_files(files: Mapping[str, bytes], edits: Iterable[FieldEdit]) -> dict[str, bytes] | None:
    """Return the files that the edits change, with their content afterwards; None where one cannot be written for
    certain."""
    by_file: dict[str, list[FieldEdit]] = {}
    for edit in edits:
        by_file.setdefault(edit.document.file, []).append(edit)
    found = dict[str, bytes]()
    for file, of_file in by_file.items():
        made = FileEditor(file, files[file]).edited(of_file) if file in files else None
        if made is None:
            return None
        found[file], _ = made
    return found


class FileEditor:
    """One file: its text without a byte order mark, and its documents."""

    def __init__(self, file: str, content: bytes) -> None:
        self.file, text = file, content.decode("utf-8", "replace")  # a file in another encoding has no documents
        self.head, self.text = (_MARK, text[1:]) if text.startswith(_MARK) else ("", text)
        self.lines = [0, *(found.end() for found in re.finditer("\n", self.text))]
        self.parsed = parse_file(file, content)
        self.eol = "\r\n" if "\r\n" in self.text else "\n"
        self._roots: dict[int, yaml.Node] = {}

    def edited(self, edits: Sequence[FieldEdit]) -> tuple[bytes, tuple[TextEdit, ...]] | None:
        """Return the content afterwards, and what each edit replaces; None where it is not certain."""
        try:
            return self._edited(edits)
        except (_RefusedError, yaml.YAMLError):
            return None

    def _edited(self, edits: Sequence[FieldEdit]) -> tuple[bytes, tuple[TextEdit, ...]]:
        by_document: dict[DocumentIdentity, list[FieldEdit]] = {}
        for edit in edits:
            by_document.setdefault(edit.document.identity, []).append(edit)
        documents = [document for document, _ in self.parsed.documents]
        if not by_document.keys() <= {document.identity for document in documents}:
            raise _RefusedError
        wanted = [_Content.of(document, by_document.get(document.identity, [])) for document in documents]
        whole = {document.identity: document for document in documents}
        splices = [self._splice(whole[edit.document.identity], edit) for edit in edits]
        pieces, end = list[str](), 0
        for splice in sorted(dict.fromkeys(splices), key=lambda splice: (splice.start, splice.end)):
            if splice.start < end:
                raise _RefusedError
            pieces += (self.text[end : splice.start], splice.text)
            end = splice.end
        content = f"{self.head}{''.join(pieces)}{self.text[end:]}".encode()
        self._demand(parse_file(self.file, content), wanted)
        return content, tuple(map(self._text_edit, splices))

    def _demand(self, after: ParsedFile, wanted: Sequence[_Content]) -> None:
        """Raise _RefusedError unless the file has the wanted contents, and no new error."""
        contents = [_Content.of(document, []) for document, _ in after.documents]
        errors, known = ({(each.code, each.message) for each in of.diagnostics} for of in (after, self.parsed))
        if contents != wanted or errors - known:
            raise _RefusedError

    def _text_edit(self, splice: _Splice) -> TextEdit:
        return TextEdit(self.file, *self._place(splice.start), *self._place(splice.end), splice.text)

    def _place(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1."""
        row = bisect_right(self.lines, offset)
        return row, offset - self.lines[row - 1] + 1

    def _splice(self, document: Document, edit: FieldEdit) -> _Splice:
        at = self.lines[document.line - 1]
        if not self.text.startswith(document.text, at):
            raise _RefusedError
        if document.line not in self._roots:
            self._roots[document.line] = yaml.compose(document.text, Loader=yaml.CSafeLoader)
        found = _splice_of(document, self._roots[document.line], edit)
        text = found.text.replace("\n", self.eol) if self.eol != "\n" else found.text
        return _Splice(at + found.start, at + found.end, text)


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a document, without a name that is derived from it."""

    data: Any

    @classmethod
    def of(cls, document: Document, edits: Sequence[FieldEdit]) -> _Content:
        data = document.data
        if document.has_generated_name:
            metadata = {key: value for key, value in document.metadata.items() if key != "name"}
            data = {**data, "metadata": metadata}
        try:
            return cls(with_edits(data, edits))
        except (LookupError, TypeError, AttributeError):
            raise _RefusedError from None


def _splice_of(document: Document, node: yaml.Node, edit: FieldEdit) -> _Splice:
    """Return the splice of an edit in the document's text, of which this is the root."""
    text, path = document.text, (*document.item_path, *edit.path)
    way: list[tuple[yaml.Node, int]] = []
    for depth, step in enumerate(path):
        if isinstance(node, yaml.MappingNode):
            at = next((number for number, (key, _) in enumerate(node.value) if key.value == step), None)
            if at is None:
                return _new_key(document, node, edit, depth - len(document.item_path))
            way.append((node, at))
            node = node.value[at][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            way.append((node, step))
            node = node.value[step]
        elif isinstance(node, yaml.SequenceNode) and step == len(node.value) and depth == len(path) - 1:
            return _new_item(text, node, edit.value)
        else:
            raise _RefusedError
    holder, at = way[-1]
    if edit.value is Removal.FIELD:
        return _removal(text, way)
    if edit.is_key:
        return _replaced(text, holder.value[at][0], edit.value) if isinstance(holder, yaml.MappingNode) else _refuse()
    return _replaced(text, node, edit.value)


def _refuse() -> _Splice:
    raise _RefusedError


def _replaced(text: str, node: yaml.Node, value: Any) -> _Splice:
    """Return a scalar or a collection in flow style instead of one, behind its anchor; of an empty one after its
    key."""
    start, end = node.start_mark.index, node.end_mark.index
    if found := _PROPERTY.match(text, start, end):
        start = found.end()
    if isinstance(node, yaml.ScalarNode):
        if node.style in ("|", ">"):
            raise _RefusedError
        blank = " " if start == end and text[start - 1 : start] == ":" else ""
        return _Splice(start, end, blank + _scalar(value, node.style))
    if isinstance(node, yaml.SequenceNode) and isinstance(value, list) and not node.flow_style:
        raise _RefusedError
    return _Splice(start, end, _flow_text(value)) if node.flow_style else _refuse()


def _scalar(value: Any, style: str | None) -> str:
    """Return the value in the quotes that were there, in none where it needs none."""
    if isinstance(value, dict | list):
        return _flow_text(value)
    if isinstance(value, str) and value.isprintable():
        if style == "'":
            return "'" + value.replace("'", "''") + "'"
        if style == '"':
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if _PLAIN_QUANTITY.fullmatch(value):
            return value
    return scalar_text(value)


def _flow_text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar_text(key)}: {_flow_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow_text, value)) + "]"
    return _scalar(value, None)


def _new_key(document: Document, mapping: yaml.MappingNode, edit: FieldEdit, depth: int) -> _Splice:
    """Return the field with all that leads to it, in the mapping that is there."""
    if edit.value is Removal.FIELD or edit.is_key:
        raise _RefusedError
    value = edit.value
    for step in reversed(edit.path[depth + 1 :]):
        value = {step: value}
    key = str(edit.path[depth])
    if mapping.flow_style:
        start = mapping.start_mark.index
        pair = f"{scalar_text(key)}: {_flow_text(value)}"
        if not mapping.value:
            return _Splice(start, mapping.end_mark.index, f"{{{pair}}}")
        first = mapping.value[0][0].start_mark.index
        return _Splice(first, first, f"{pair}, ")
    starts = line_starts(document.text)
    place = insertion_point(document, edit.path[:depth], starts)
    if place is None:
        raise _RefusedError
    at, column, after = place
    indent = " " * (column - 1)
    lines = [indent + line for line in yaml_lines({key: value})]
    if not after:
        return _Splice(at, at, "\n".join(lines).lstrip(" ") + "\n" + indent)
    if at == len(document.text) and not document.text.endswith("\n"):
        return _Splice(at, at, "".join(f"\n{line}" for line in lines))
    return _Splice(at, at, "".join(f"{line}\n" for line in lines))


def _new_item(text: str, sequence: yaml.SequenceNode, value: Any) -> _Splice:
    """Return the splice behind the last item; for a block below the last item's last line."""
    if sequence.flow_style:
        if not sequence.value:
            return _Splice(sequence.start_mark.index, sequence.end_mark.index, f"[{_flow_text(value)}]")
        end = sequence.value[-1].end_mark.index
        return _Splice(end, end, f", {_flow_text(value)}")
    end = _end_of(sequence)
    indent = " " * sequence.start_mark.column
    lines = [indent + line for line in yaml_lines([value])]
    if text[end - 1 : end] == "\n":
        return _Splice(end, end, "".join(f"{line}\n" for line in lines))
    rest = _REST_OF_LINE.match(text, end)
    if rest is None:
        raise _RefusedError
    if not rest.group().endswith("\n"):
        return _Splice(rest.end(), rest.end(), "".join(f"\n{line}" for line in lines))
    return _Splice(rest.end(), rest.end(), "".join(f"{line}\n" for line in lines))


def _end_of(node: yaml.Node) -> int:
    """Where the text of a node ends, without the comments and blank lines below a block."""
    while not isinstance(node, yaml.ScalarNode) and not node.flow_style and node.value:
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    end: int = node.end_mark.index
    return end


def _removal(text: str, way: Sequence[tuple[yaml.Node, int]]) -> _Splice:
    """Without the field, and without what around it would be empty."""
    *outer, (holder, at) = way
    while len(holder.value) == 1 and outer:
        *outer, (holder, at) = outer
    if not isinstance(holder, yaml.MappingNode):
        raise _RefusedError
    (key, value), last = holder.value[at], at == len(holder.value) - 1
    start, end = key.start_mark.index, _end_of(value)
    if holder.flow_style:
        before = holder.value[at - 1][1].end_mark.index
        return _Splice(before, end, "") if last else _Splice(start, holder.value[at + 1][0].start_mark.index, "")
    line, rest = text.rfind("\n", 0, start) + 1, _REST_OF_LINE.match(text, end)
    if text[line:start].strip(" ") or rest is None:
        raise _RefusedError
    return _Splice(line, rest.end(), "")


class Fixes:
    """The fixes of findings on these files, by name; generated files have none."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self._documents: dict[str, list[Document]] = {}

    def text_edits(self, findings: Iterable[Diagnostic]) -> dict[Diagnostic, TextEdit]:
        """Return the replacement for each finding that has a certain fix."""
        return {finding: edit for _, _, made in self._made(findings) for finding, edit in made}

    def applied(self, findings: Iterable[Diagnostic]) -> tuple[dict[str, bytes], list[Diagnostic]]:
        """Return the files that change, with their content afterwards, and the findings that are fixed."""
        made = list(self._made(findings))
        return {file: content for file, content, _ in made}, [finding for *_, of in made for finding, _ in of]

    def _made(self, findings: Iterable[Diagnostic]) -> Iterator[tuple[str, bytes, list[tuple[Diagnostic, TextEdit]]]]:
        """Yield each file with the fixes that are made in it, as many as go together: of two for the same text the
        first."""
        by_file: dict[str, list[Fix]] = {}
        for finding in findings:
            if (edit := self._field_edit(finding)) is not None:
                by_file.setdefault(edit.document.file, []).append((finding, edit))
        for file, fixes in by_file.items():
            editor = FileEditor(file, self.files[file])
            kept = _added(editor, [], fixes)
            if (made := editor.edited([edit for _, edit in kept])) and kept:
                yield file, made[0], [(finding, edit) for (finding, _), edit in zip(kept, made[1], strict=True)]

    def _field_edit(self, finding: Diagnostic) -> FieldEdit | None:
        if finding.edit is None or self.files.get(finding.position.file, BUILT_MARK).startswith(BUILT_MARK):
            return None
        found = [
            edit
            for document in self._documents_of(finding)
            for edit in _field_edits(document, finding.edit, finding.path)
        ]
        return found[0] if len(found) == 1 else None

    def _documents_of(self, finding: Diagnostic) -> Iterator[Document]:
        file = finding.position.file
        if file not in self._documents:
            self._documents[file] = [document for document, _ in parse_file(file, self.files[file]).documents]
        for document in self._documents[file]:
            if document.display_name == finding.object and document.position(*finding.path) == finding.position:
                yield document


Fix = tuple[Diagnostic, FieldEdit]


def _added(editor: FileEditor, kept: list[Fix], more: list[Fix]) -> list[Fix]:
    """Return the fixes with as many more as go together; halved until one is refused alone."""
    if editor.edited([edit for _, edit in (*kept, *more)]) is not None:
        return [*kept, *more]
    if len(more) < 2:
        return kept
    middle = len(more) // 2
    return _added(editor, _added(editor, kept, more[:middle]), more[middle:])


def _field_edits(document: Document, edit: Edit, path: FieldPath) -> Iterator[FieldEdit]:
    """Yield the edit of the document; none if the replaced text is not at the field, or more than once."""
    at, new = edit.at or path, edit.new
    if not edit.old:
        if at:
            yield FieldEdit(document, at, new)
    else:
        for written, is_key in ((at[-1] if at else None, True), (value_at(document.data, at), False)):
            if isinstance(written, str) and (word := _replaced_word(written, edit.old, str(new))):
                yield FieldEdit(document, at, word, is_key)
                return


def _replaced_word(text: str, old: str, new: str) -> str:
    """Return the text with another word; "" where the word is not there, or more than once."""
    words = re.findall(rf"(?<![\w-]){re.escape(old)}(?![\w-])", text)
    return text.replace(old, new, 1) if len(words) == 1 else ""
