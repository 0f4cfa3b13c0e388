"""`gangplan explain JOB`, or an argument of the scheduler, or a diagnostic's code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from compiler.cli import CompileInputs, compile_and_report, compile_options, echo, output_option, terminal_style

if TYPE_CHECKING:
    from compiler.outcome import Outcome


@click.command()
@click.argument("job")
@compile_options
@output_option
@click.pass_context
def explain(ctx: click.Context, job: str, inputs: CompileInputs, output: str) -> None:
    """Say why JOB (its name, or namespace/name) starts or waits, and what would help.

    In place of a job: an action, a plugin or an argument of Volcano's scheduler (binpack.weight), or the code of a
    diagnostic (GP410). A job of such a name is namespace/name.
    """
    if (text := _reference_text(job)) is not None:
        echo(text)
        ctx.exit(0)
    from compiler.views import data, machine
    from compiler.views.explanation import explanation_text

    outcome = compile_and_report(ctx, inputs)
    found = [decision for decision in outcome.decisions if job in (decision.name, decision.gang.document.name)]
    if not found:
        raise _unknown_job(ctx, outcome, job)
    if output == "text":
        echo("\n".join(explanation_text(outcome, decision, terminal_style()) for decision in found))
    else:
        echo(machine.FORMATS[output]({"jobs": [data.gang_entry(decision) for decision in found]}))
    ctx.exit(0)


def _reference_text(words: str) -> str | None:
    """What the reference says of an argument of the scheduler, or of a diagnostic's code."""
    from compiler.volcano.arguments import explanation

    if words[:2] == "GP" and words[2:].isdigit():
        from compiler.checks.catalogue import all_rules

        rule = all_rules().get(words)
        return None if rule is None else f"{rule.code} {rule.title} ({rule.severity})\n{rule.text}\n"
    return explanation(words)


def _unknown_job(ctx: click.Context, outcome: Outcome, job: str) -> click.ClickException:
    """Why there is no such job in the plan: its document has errors, or the name is wrong."""
    import difflib

    broken = {diagnostic.object for diagnostic in outcome.diagnostics if diagnostic.severity == "error"}
    documents = [document for document in outcome.specs.documents if document.display_name in broken]
    if any(job in (document.name, f"{document.namespace}/{document.name}") for document in documents):
        return click.ClickException(f"{job} has errors (see above) and is in no plan until they are mended")
    names = [name for decision in outcome.decisions for name in (decision.name, decision.gang.document.name)]
    from compiler.volcano.arguments import near_name

    near = next(iter(difflib.get_close_matches(job, names, n=1)), "") or near_name(job)
    hint = f"; did you mean {near}?" if near else ""
    return click.UsageError(f"there is no job {job!r} in the plan{hint}", ctx)
