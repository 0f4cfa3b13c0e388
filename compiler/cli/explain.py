"""`gangplan explain JOB`, or an argument of the scheduler, or the code of a diagnostic, a reason or a repair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compiler.cli.inputs import (
    CompileInputs,
    compile_inputs,
    compile_options,
    echo,
    output_option,
    print_diagnostics,
    terminal_style,
)
from compiler.fields.texts import count_text

if TYPE_CHECKING:
    from compiler.diagnostics.diagnostic import Diagnostic
    from compiler.explain.statements import CodedMessage
    from compiler.outcome import JobDecision, Outcome
    from compiler.specs.gang_spec import GangSpec
    from compiler.syntax.documents import Document


@click.command()
@click.argument("job")
@compile_options
@output_option("json", "yaml")
@click.option("--patch", is_flag=True, help="Print each repair as a patch for git apply or a command for the cluster")
@click.option("--repair", metavar="CODE|NUMBER", help="The patch of these repairs only, such as GR101 or 2")
@click.pass_context
def explain(ctx: click.Context, job: str, inputs: CompileInputs, output: str, patch: bool, repair: str | None) -> None:
    """Explain why JOB (its name, namespace/name, kind/name or file) starts or waits, and what would help.

    In place of a job: an action, a plugin or an argument of Volcano's scheduler (binpack.weight), or a field
    (Cluster.spec.order). Also the code of a diagnostic (GP410), a reason (GW104) or a repair (GR102). A job of such a
    name is namespace/name.
    """
    from compiler.views.reference import UnknownReferenceError, reference_text

    try:
        text = reference_text(job)
    except UnknownReferenceError as error:
        raise click.UsageError(str(error), ctx) from error
    if text is not None:
        echo(text)
        ctx.exit(0)
    from compiler.views import data, machine
    from compiler.views.explanation import explanation_text

    job = _repository_path(job, inputs.repo)
    outcome = compile_inputs(ctx, inputs)
    found = _named_decisions(outcome, job)
    _print_findings(outcome, [decision.gang.document for decision in found] or _broken_documents(outcome, job))
    if not found:
        raise _unknown_job(ctx, outcome, job)
    if patch or repair:
        _print_patches(ctx, inputs, outcome, found, repair)
    elif output == "text":
        echo("\n".join(explanation_text(outcome, decision, terminal_style()) for decision in found))
    else:
        echo(machine.FORMATS[output]({"jobs": [data.gang_entry(decision) for decision in found]}))
    ctx.exit(0)


def _print_patches(
    ctx: click.Context, inputs: CompileInputs, outcome: Outcome, decisions: Sequence[JobDecision], wanted: str | None
) -> None:
    """Print the patch of each repair to stdout, after a line with its purpose; repairs without a patch to stderr. They
    are alternatives: `--repair` chooses one that an earlier one has not made needless."""
    from compiler.cli.inputs import folder_in_git, load_tree
    from compiler.emit.repaired_files import edited_by_repairs
    from compiler.views.machine import patch_text

    tree, found, printed = load_tree(ctx, inputs.repo), list[str](), 0
    for decision in decisions:
        for number, (message, after) in enumerate(edited_by_repairs(outcome, decision, tree), 1):
            found += [str(number), message.code]
            if wanted in (None, message.code, str(number)):
                what = f"{decision.name}, repair {number}: {message.code} {message.message}"
                if after is None:
                    click.echo(f"no patch for {what}{_no_patch_reason(outcome, decision.gang, message)}", err=True)
                else:
                    echo(f"# {what}\n{patch_text(tree.files, after, folder_in_git(inputs.repo))}")
                    printed += 1
    if not found:
        raise click.ClickException(f"{decisions[0].name} has no repairs; see gangplan explain without --patch")
    if wanted not in (None, *found):
        known = ", ".join(dict.fromkeys((*found[::2], *found[1::2])))
        raise click.ClickException(f"no such repair: {wanted}. Fix: choose one of {known}")
    if not printed:
        raise click.ClickException("no repair is a certain edit of files; see gangplan explain without --patch")


def _no_patch_reason(outcome: Outcome, gang: GangSpec, message: CodedMessage) -> str:
    from compiler.explain.catalogue import REPAIRS, entries_by_code
    from compiler.specs.eligibility import is_cordoned

    if (entry := entries_by_code(REPAIRS)[message.code]).change:
        return ""
    labels = [role.labels.items() for role in gang.roles]
    nodes = message.facts.get("nodes")
    cordoned = {node.name for node in outcome.origins.nodes if is_cordoned(node)} if outcome.origins else set()
    common = {key: value for key, value in labels[0] if all((key, value) in each for each in labels)}
    values = {
        "namespace": gang.namespace,
        "pods": ",".join(f"{key}={value}" for key, value in common.items() if value == gang.document.name),
        "cordoned": " ".join(name for name in nodes if name in cordoned) if isinstance(nodes, tuple) else "",
    }
    is_known = entry.command and all(value for name, value in values.items() if f"{{{name}}}" in entry.command)
    return f" (it is done in the cluster{': ' + entry.command.format_map(values) if is_known else ', not in a file'})"


def _repository_path(job: str, repo: Path) -> str:
    """`job`, or, where it is a file, its path inside the repository."""
    path = Path(job).resolve()
    is_file = path.is_file() and path.is_relative_to(repo.resolve())
    return path.relative_to(repo.resolve()).as_posix() if is_file else job


def _named_decisions(outcome: Outcome, job: str) -> list[JobDecision]:
    """Return the decisions on the jobs that `job` names; where none is of that name the one whose generateName it
    is."""
    if found := [decision for decision in outcome.decisions if _is_named(decision.gang.document, job)]:
        return found
    begun = _begun_decisions(outcome, job)
    return begun if len(begun) == 1 else []


def _begun_decisions(outcome: Outcome, job: str) -> list[JobDecision]:
    return [decision for decision in outcome.decisions if _begins(decision.gang.document, job)]


def _is_named(document: Document, job: str) -> bool:
    """Return whether `job` is the document's name, namespace/name, kind/name (in any case) or file."""
    namespaced_name = f"{document.namespace or 'default'}/{document.name}"
    kind_name = f"{document.kind}/{document.name}".lower()
    return job in (document.name, namespaced_name, document.file) or job.lower() == kind_name


def _begins(document: Document, job: str) -> bool:
    """Return whether `job` is what `_is_named` takes, of a name that follows from generateName, without the end of
    that."""
    from compiler.syntax.runs import name_suffix

    return document.has_generated_name and any(
        _is_named(document, f"{beginning}{name_suffix(document.data)}") for beginning in (job, f"{job}-")
    )


def _broken_documents(outcome: Outcome, job: str) -> list[Document]:
    """Return the documents with errors that `job` names."""
    broken = {diagnostic.object for diagnostic in outcome.diagnostics if diagnostic.severity == "error"}
    named = (document for document in outcome.specs.documents if _is_named(document, job))
    return [document for document in named if document.display_name in broken]


def _print_findings(outcome: Outcome, documents: Sequence[Document]) -> None:
    """The findings on these documents, and the errors that bear on every job, to stderr; the rest is counted."""
    names, files = {document.display_name for document in documents}, {document.file for document in documents}

    def is_shown(diagnostic: Diagnostic) -> bool:
        if diagnostic.object in names or (not diagnostic.object and diagnostic.position.file in files):
            return True
        return diagnostic.severity == "error" and not diagnostic.position.file.startswith("jobs/")

    shown = [diagnostic for diagnostic in outcome.diagnostics if is_shown(diagnostic)]
    print_diagnostics(shown)
    if rest := len(outcome.diagnostics) - len(shown):
        noun = "other finding" if shown else "finding"
        click.echo(f"{count_text(rest, noun)} in the repository: see gangplan check", err=True)


def _unknown_job(ctx: click.Context, outcome: Outcome, job: str) -> click.ClickException:
    """Return why there is no such job in the plan: its document has errors, or the name is wrong."""
    import difflib

    if _broken_documents(outcome, job):
        return click.ClickException(f"{job} has errors (see above) and is in no plan until they are fixed")
    names = [name for decision in outcome.decisions for name in (decision.name, decision.gang.document.name)]
    from compiler.volcano.arguments import near_name

    begun = " or ".join(decision.name for decision in _begun_decisions(outcome, job))
    near = begun or next(iter(difflib.get_close_matches(job, names, n=1)), "") or near_name(job)
    hint = f"; did you mean {near}?" if near else ""
    return click.UsageError(f"there is no job {job!r} in the plan{hint}", ctx)
