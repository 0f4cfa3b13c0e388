"""`gangplan explain` of what is no job, and `gangplan schema` of a name that several groups have."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from compiler.cli.root import cli


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("Job.batch.volcano.sh.spec.networkTopology", ("mode                one of hard, soft\n",)),
        ("Cluster.spec.order", ("one of queues-first, priorities-first", "default queues-first", "entitlement")),
        ("Cluster.spec", ("maxWaitingPods", "integer", "Most pods of waiting gangs")),
        ("Job.spec.tasks.replicas", ("Job.batch.volcano.sh.spec.tasks.replicas  integer",)),
        ("Job.batch.spec", ("parallelism", "required")),
        ("Queue.spec.guarantee.resource", ("map of",)),
        ("enqueue", ("action enqueue", "minResources")),
        ("shuffle", ("evicts",)),
        ("capacity", ("ancestorReclaimLevel", "in the plan: capability, deserved and guarantee")),
        ("GP410", ("GP410 ",)),
        ("gr105", ("GR105 ",)),
    ],
)
def test_explain_says_what_the_reference_does(words: str, said: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, ["explain", words])
    assert done.exit_code == 0, done.output
    assert [each for each in said if each not in done.stdout] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("gp310x", "there is no job 'gp310x'"),
        ("gp3100", "there is no code GP3100; did you mean GP310? all codes: https://"),
        ("GW999", "/reference/codes/"),
        ("Queue.spec.wieght", "did you mean weight?"),
        ("Job.spec.takss", "Job.batch.volcano.sh: there is no field 'takss'; did you mean tasks?"),
    ],
)
def test_what_the_reference_lacks_is_an_error_without_a_plan(words: str, said: str) -> None:
    done = CliRunner().invoke(cli, ["explain", words, "--repo", "tests"])
    assert done.exit_code == 1
    assert said in done.stderr
    assert "finding" not in done.stderr


def test_a_name_of_two_groups_is_a_schema_of_both() -> None:
    done = CliRunner().invoke(cli, ["schema", "Job"])
    assert done.exit_code == 0
    assert "Job.batch or Job.batch.volcano.sh" in done.stderr
    versions = [each["if"]["properties"]["apiVersion"]["enum"] for each in json.loads(done.stdout)["allOf"]]
    assert versions == [["batch/v1"], ["batch.volcano.sh/v1alpha1"]]
