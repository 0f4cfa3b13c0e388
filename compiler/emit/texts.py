"""Manifests as YAML, in one stream or in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from compiler.diagnostics.guard import TakeError, guarded, raise_again
from compiler.emit.block import to_yaml
from compiler.emit.manifest import JOBS_WAVE, Manifest
from compiler.emit.rewrite import rewrite
from compiler.emit.waves import manifests_with_documents
from compiler.outcome import Outcome
from compiler.syntax.documents import Document

WAVE_NAMES = ("foundation", "queues", "hypernodes", "scheduler", "others", "jobs")
"""Name of each wave, by number."""


ManifestSource = tuple[Manifest, Document]
WriteAhead = Callable[[Sequence[ManifestSource]], Mapping[int, str]]
"""Given all manifests with their documents: the texts, by their number, of those written in other processes too,
perhaps none."""


def manifest_texts(
    outcome: Outcome, report: TakeError = raise_again, ahead: WriteAhead | None = None
) -> tuple[tuple[Manifest, str], ...]:
    """Return every manifest with its YAML text: one document, ending in a newline. report: as in `manifests`. ahead:
    writes many at once."""
    made, found = tuple(manifests_with_documents(outcome, report)), []
    known = ahead(made) if ahead is not None else {}
    for number, (manifest, document) in enumerate(made):
        with guarded(document, report):
            found.append((manifest, known[number] if number in known else manifest_text(manifest, document)))
    return tuple(found)


def manifest_text(manifest: Manifest, document: Document) -> str:
    """Return the manifest's text: the user's own where the object is the user's, else our own style."""
    own = document.kind != manifest.object["kind"]
    return to_yaml(manifest.object) if own else rewrite(document, manifest.object)


def namespace_texts(texts: tuple[tuple[Manifest, str], ...]) -> tuple[tuple[Manifest, str], ...]:
    """Return a Namespace for each namespace of the objects, except those declared among them and those of every
    cluster."""
    objects = [manifest.object for manifest, _ in texts]
    there = {found["metadata"]["name"] for found in objects if found["kind"] == "Namespace"} | {"default"}
    needed = {namespace for found in objects if (namespace := found["metadata"].get("namespace"))} - there
    made = []
    for name in sorted(needed):
        found = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        made.append((Manifest(0, found, ""), to_yaml(found)))
    return tuple(made)


def stream_text(texts: tuple[tuple[Manifest, str], ...]) -> str:
    return "---\n".join(text for _, text in texts)


def texts_by_file(texts: tuple[tuple[Manifest, str], ...]) -> Mapping[str, str]:
    """Relative file name -> text. kubectl applies a folder by name, so the names keep the order of the waves; jobs have
    a file each."""
    files: dict[str, list[str]] = {}
    for manifest, text in texts:
        metadata = manifest.object["metadata"]
        name = f"{manifest.wave}-{WAVE_NAMES[manifest.wave]}"
        if manifest.wave == JOBS_WAVE:
            name += f"/{metadata['namespace']}/{metadata['name']}.{manifest.object['kind'].lower()}"
        files.setdefault(f"{name}.yaml", []).append(text)
    return {name: "---\n".join(texts) for name, texts in files.items()}
