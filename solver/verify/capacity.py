"""The verifier's rule about what nodes hold."""

from __future__ import annotations

from solver.verify.checked_plan import CheckedPlan, Findings, add_vector


def capacity(x: CheckedPlan) -> Findings:
    """On each node, per resource: running - evicted + new <= free. Where the running pods alone exceed it: no new pod
    that asks for the resource."""
    width = len(x.problem.resources)
    use: dict[int, tuple[list[int], list[int]]] = {
        node: ([0] * width, [0] * width) for new in x.new_pods for _, node in new
    }
    for which, counts in enumerate((x.remaining_pods, x.new_pods)):
        for gang, pods in zip(x.problem.gangs, counts, strict=True):
            for (role, node), amount in pods.items():
                if node in use:
                    add_vector(use[node][which], gang.roles[role].request, amount)
    for n, (run, new) in sorted(use.items()):
        for r, free in enumerate(x.problem.nodes[n].free):
            if new[r] and run[r] + new[r] > free:
                yield ("nodes", n, "free", r), f"{free} {x.problem.resources[r]} for {run[r]} running and {new[r]} new"
