"""The text heat map in a comment on a pull request: supernodes whose free devices a change moves, before and after."""

from __future__ import annotations

from compiler.comparison.render import comparison_markdown
from compiler.views.heat_map import MAX_ROWS
from tests.unit.compiler.comparison.test_comparison import BASE, POOL, changes, job, queue, without

DOMAINS = POOL.replace("spec: {", "spec: {topology: [{name: sn, size: 2}, {name: spine, size: 2}], ")
FREED = """\
<pre>
Free GPUs by supernode (· none to █ all)
n-spine-0  before  ·▒  8 of 8 free on 1 node
           after   █▒  8 of 8 free on 3 nodes
</pre>
"""


def test_a_comment_draws_the_supernodes_that_change_before_and_after() -> None:
    base = {**without(BASE, "jobs/two.yaml"), "cluster-specs/demo/nodes.yaml": DOMAINS}
    comparison = changes(base, without(base, "jobs/one.yaml"))
    assert FREED in comparison_markdown([comparison], "main", "topic")
    assert "demo:\n\n<pre>" in comparison_markdown([comparison] * 2, "main", "topic")
    unchanged = changes(base, {**base, "jobs/new.yaml": job("new", 9)})
    assert unchanged.jobs
    assert "<pre>" not in comparison_markdown([unchanged], "main", "topic")


def test_supernodes_that_come_with_the_change_are_not_there_before() -> None:
    base = {**without(BASE, "jobs/two.yaml"), "cluster-specs/demo/nodes.yaml": DOMAINS}
    larger = changes(base, {**base, "cluster-specs/demo/nodes.yaml": DOMAINS.replace("count: 4", "count: 6")})
    rows = comparison_markdown([larger], "main", "topic").partition("<pre>")[2].splitlines()
    assert "n-spine-1  before     not there" in rows
    assert "           after   █  8 of 8 free on 2 nodes" in rows


def test_the_picture_of_many_domains_is_as_short_as_a_screen() -> None:
    """Each of 40 top domains loses another number of devices, so that no two look alike."""
    base = {**without(BASE, "jobs/two.yaml"), "cluster-specs/demo/nodes.yaml": DOMAINS.replace("count: 4", "count: 40")}
    jobs = {f"jobs/n{n}.yaml": job(f"n{n}", 2, gpus=1 + n % 7) for n in range(20)}
    base["cluster-specs/demo/queues.yaml"] = queue("a")
    text = comparison_markdown([changes(base, {**base, **jobs})], "main", "topic")
    rows = text.partition("<pre>")[2].partition("</pre>")[0].splitlines()
    assert 4 < len(rows) <= 2 * MAX_ROWS + 4
