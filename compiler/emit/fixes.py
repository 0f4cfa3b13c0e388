"""The fixes of findings as edits of the files they are in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compiler.diagnostics.diagnostic import Diagnostic, Edit, TextEdit
from compiler.emit.edited_files import FileEditor
from compiler.repository.kustomize import BUILT_MARK
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.edits import FieldEdit
from compiler.syntax.parse import parse_file


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
        for written, is_key in ((at[-1] if at else None, True), (_value(document, at), False)):
            if isinstance(written, str) and (word := _replaced_word(written, edit.old, str(new))):
                yield FieldEdit(document, at, word, is_key)
                return


def _replaced_word(text: str, old: str, new: str) -> str:
    """Return the text with another word; "" where the word is not there, or more than once."""
    words = re.findall(rf"(?<![\w-]){re.escape(old)}(?![\w-])", text)
    return text.replace(old, new, 1) if len(words) == 1 else ""


def _value(document: Document, path: Sequence[str | int]) -> object:
    try:
        return document.value_at(*path)
    except (LookupError, TypeError):
        return None
