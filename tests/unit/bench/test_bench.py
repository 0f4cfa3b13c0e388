"""The benchmark's own promises: reproducible worlds of the load that they claim, a bound that bounds, bars that bite, a
history that is kept."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import table, traces
from bench.bound import placed_by_greedy, placed_upper_bound
from bench.child import ABSENT_EXIT_CODE, run_in_child
from bench.cli import bench
from bench.history import append_run, history_page, read_runs
from bench.registry import Case, Comparison, Figures, MissingInputError, Quality, figures_from_json, load_cases
from bench.worlds import GPU, generate_repository
from compiler.cluster_state.cluster_state import load_state
from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders.problems import gang, nodes, problem, queue, role

QUALITY = Quality(8, 7, 8, 3, 2, (1, 4), {"proven": 2}, (1.0, 0.0))
FIGURES = Figures(1.5, 1.25, 3 << 20, {"read": 0.5}, {"admit": 0.25}, QUALITY)
BESIDE = Comparison("Who wins", ("who", "GPUs"), (("plan", "8"), ("greedy", "7")))


def measured(seconds: float | None, peak: int | None) -> Case:
    return Case("one", "The one", lambda: FIGURES, seconds, peak)


@pytest.mark.parametrize("load", [0.6, 0.9, 1.2])
def test_a_world_asks_for_its_load_and_has_nothing_to_complain_about(load: float) -> None:
    specs = read_specs(Repository(generate_repository(64, 30, load).files))
    asked = sum(role.replicas * role.pod.requests.get(GPU, 0) for gang in specs.gangs for role in gang.roles)
    assert (specs.diagnostics, len(specs.gangs), len(specs.nodes)) == ((), 30, 64)
    assert asked == pytest.approx(load * 512, rel=0.1)


def test_a_world_is_its_seed() -> None:
    assert generate_repository(64, 30, 0.9, busy=True) == generate_repository(64, 30, 0.9, busy=True)
    assert generate_repository(64, 30, 0.9) != generate_repository(64, 30, 0.9, seed=2)


def test_about_half_of_a_busy_world_is_held_by_others() -> None:
    made = generate_repository(640, 10, 0.2, busy=True)
    assert made.state is not None
    outcome = compile_repository(Repository(made.files), state=load_state(made.state))
    assert outcome.problem is not None
    gpu = outcome.problem.resources.index(GPU)
    assert 0.3 < sum(node.free[gpu] for node in outcome.problem.nodes) / (640 * 8) < 0.7


def test_the_bound_is_the_relaxation_and_never_below_what_the_greedy_places() -> None:
    # 8 GPUs: two gangs of 5 do not both fit, of one and three fifths of the other the relaxation sees no difference
    p = problem(nodes(8, gpu=1), gang("a", role(5, gpu=1)), gang("b", role(5, gpu=1)))
    assert (placed_upper_bound(p, p.resources.index("gpu")), placed_by_greedy(p, p.resources.index("gpu"))) == (
        8,
        (1, 5),
    )


def test_the_bound_knows_queues() -> None:
    p = problem(
        nodes(8, gpu=1),
        queue("q", capability={"gpu": 4}),
        gang("a", role(2, gpu=1), queue="q"),
        gang("b", role(3, gpu=1), queue="q"),
    )
    assert placed_upper_bound(p, p.resources.index("gpu")) == 4


@pytest.mark.parametrize(
    ("seconds", "peak", "missed"),
    [(None, None, 0), (1.5, 3 << 20, 0), (1.4, 3 << 20, 1), (1.5, 2 << 20, 1), (1.4, 2 << 20, 2)],
)
def test_a_bar_is_missed_above_it_and_held_at_it(seconds: float | None, peak: int | None, missed: int) -> None:
    case = measured(seconds, peak)
    assert len(table.missed_bars(case, FIGURES)) == missed
    assert table.terminal_tables([(case, FIGURES)]).count("MISSED") == missed


def test_a_case_that_fails_is_missed_even_without_a_bar() -> None:
    assert table.missed_bars(measured(None, None), "it broke") == ["one: it broke"]
    assert "failed" in table.terminal_tables([(measured(None, None), "it broke")])


@pytest.mark.parametrize("made", [FIGURES, replace(FIGURES, comparison=BESIDE, claims={"it wins": True})])
def test_figures_survive_the_way_from_the_child(made: Figures) -> None:
    assert figures_from_json(json.loads(json.dumps(asdict(made)))) == made


def test_a_claim_that_does_not_hold_is_missed_and_said() -> None:
    case, beaten = measured(None, None), replace(FIGURES, claims={"it wins": False, "it ends": True})
    assert table.missed_bars(case, beaten) == ["one: it does not hold that it wins"]
    assert "MISSED: it wins" in table.terminal_tables([(case, beaten)])
    assert "MISSED" not in table.terminal_tables([(case, replace(FIGURES, claims={"it wins": True}))])


def test_comparisons_of_one_title_are_one_table() -> None:
    results = [(measured(None, None), replace(FIGURES, comparison=BESIDE))] * 2
    (found,) = [one for one in table.result_tables(results) if one[0] == "Who wins"]
    assert found[2].count(["plan", "8"]) == 2


def test_a_case_whose_trace_is_not_here_is_left_out(tmp_path: Path) -> None:
    ran = CliRunner().invoke(bench, ["--only", "lingjun-60-1", "--traces", str(tmp_path)])
    assert (ran.exit_code, "trace not here" in ran.stderr) == (0, True)
    assert "lingjun" not in ran.stdout


def test_the_child_says_what_is_absent_apart_from_what_is_broken(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="trace not here"):
        apart_without_traces(tmp_path)
    assert ABSENT_EXIT_CODE not in (0, 1, 2)


def apart_without_traces(nowhere: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(traces.TRACES_VARIABLE, str(nowhere))
        run_in_child("openb-default")


def test_a_switch_is_its_whole_way_and_the_lowest_tier_holds_the_hosts() -> None:
    tree, hosts = traces.clos_topology([("d", "p1", "a"), ("d", "p2", "a"), ("d", "p1", "a")])
    assert [(h.name, h.tier, h.parent) for h in tree] == [
        ("d", 3, None),
        ("d/p1", 2, 0),
        ("d/p2", 2, 0),
        ("d/p1/a", 1, 1),
        ("d/p2/a", 1, 2),
    ]
    assert [host.leaf for host in hosts] == [3, 3, 4]


def test_groups_are_run_when_asked_for_and_the_usual_ones_else() -> None:
    usual, scale = (
        CliRunner().invoke(bench, ["--list", *words]).stdout for words in (["--group", "usual"], ["--group", "scale"])
    )
    assert ("10000x1000-busy" in usual, "10000x1000-busy" in scale) == (False, True)
    assert ("example" in usual, "example" in scale) == (True, False)
    assert CliRunner().invoke(bench, ["--group", "other"]).exit_code != 0


def test_a_run_is_stored_with_machine_and_commit_and_shown_beside_the_last_ones(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    for _ in range(2):
        append_run([(measured(2, None), FIGURES)], file)
    first, second = read_runs(file)
    assert first == second
    assert first["machine"]["cores"]
    page = history_page([first, second])
    assert "| The one | one | 1.50 | <= 2 s held |" in page
    assert "| one | 1.50 | 1.50 |" in page
    assert page.count(first["commit"]) >= 3


def test_the_promised_bars_are_those_of_the_cases() -> None:
    known = load_cases()
    assert known["example"].seconds == 5
    assert {(c.seconds, c.peak) for name, c in known.items() if name.startswith("1000x100-")} == {(10, 1 << 30)}
    assert (known["10000x1000-busy"].seconds, known["50000x2000-busy"].seconds) == (12, 60)
    assert {c.seconds for name, c in known.items() if name.startswith("never-") or name == "one-more"} == {1, 0.4}
