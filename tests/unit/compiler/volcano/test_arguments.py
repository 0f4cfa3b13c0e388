"""The table of arguments is whole, and `gangplan explain` answers from it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from compiler.cli.root import cli
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.volcano.arguments import MISTYPES, OWNERS, explanation, find_argument, typed_arguments
from compiler.volcano.scheduler_conf import PLUGIN_NAMES, SCHEDULER_ACTIONS


def test_every_row_of_the_table_is_whole() -> None:
    assert {owner.name for owner in OWNERS.values() if owner.since > 15} == {"fairshare", "group-topology-affinity"}
    assert len(PLUGIN_NAMES) == 26
    for owner in OWNERS.values():
        assert not owner.is_action or owner.name in (*SCHEDULER_ACTIONS, "init-params")
        assert ".go" in owner.source
        for argument in owner.arguments:
            assert argument.meaning
            assert argument.mistype in MISTYPES
            assert argument.default or not argument.is_read
            assert argument.low is not None or not argument.is_enforced, argument.name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("binpack.weight", "binpack.weight (plugin binpack)"),
        ("binpack.binpack.weight", "binpack.weight (plugin binpack)"),
        ("gangpreempt.maxDomains", "maxDomains (action gangpreempt)"),
        ("overcommit-factor", "1 or more"),
        ("binpack.resources.nvidia.com/gpu", "binpack.resources.<resource>"),
        ("tdm", "tdm.evict.period"),
        ("gang", "has no arguments"),
        ("fairshare", "(Volcano 1.16)"),
        ("extender.jobEnqueuedVerb", "(Volcano 1.16)"),
        ("GP401", "GP401 unknown action"),
    ],
)
def test_explain_answers_without_a_repository(words: str, said: str) -> None:
    result = CliRunner().invoke(cli, ["explain", words])
    assert result.exit_code == 0
    assert said in result.output


def test_an_argument_of_several_plugins_is_explained_for_each() -> None:
    text = explanation("weight") or ""
    assert "plugin network-topology-aware" in text
    assert "plugin numa-aware" in text


def test_a_family_has_members_and_is_none_itself() -> None:
    assert find_argument("binpack", "binpack.resources.cpu") is not None
    assert find_argument("binpack", "binpack.resources.") is None
    assert explanation("no.such.argument") is None


def test_a_text_is_true_or_false_where_volcano_reads_it_so() -> None:
    """Only arguments of type bool; a text of another type stays, and is found to be no number."""
    said = {"strict": "F", "enablePreferredOrder": "True"}
    assert typed_arguments("nodegroup", said) == {"strict": False, "enablePreferredOrder": True}
    for owner, name, value in (("nodegroup", "strict", "no"), ("binpack", "binpack.weight", "1"), ("own", "on", "1")):
        assert typed_arguments(owner, {name: value}) == {name: value}


CONFIGURATION = """
apiVersion: gangplan.dev/v1alpha1
kind: SchedulerConfiguration
metadata: {name: volcano-scheduler-configmap}
spec:
  actions: [allocate, gangpreempt]
  tiers: [{plugins: [{name: gang}, {name: nodegroup, arguments: {strict: FALSE}}]}]
  configurations: [{name: gangpreempt, arguments: {allowWholeBundle: FALSE}}]
"""


def test_quoted_booleans_of_plugins_and_actions_are_those_without_quotes() -> None:
    def read(word: str) -> SchedulerSpec:
        text = CONFIGURATION.replace("FALSE", word)
        found = read_specs(Repository({"cluster-specs/c/conf.yaml": text.encode()})).scheduler
        assert found is not None
        return found

    quoted, plain = read("'false'"), read("false")
    assert (quoted.tiers, quoted.configurations) == (plain.tiers, plain.configurations)
    assert quoted.configuration_entries == plain.configuration_entries
