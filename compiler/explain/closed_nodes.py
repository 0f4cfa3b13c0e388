"""Why nodes are closed to a role: labels that it demands and they lack, taints that it does not tolerate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.diagnostics.diagnostic import did_you_mean
from compiler.fields.texts import MAX_LISTED, count_text, short_list
from compiler.specs.eligibility import NodeMasks, NodeRequirement, node_requirement, returned_node, untolerated_taints
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import Expression, NodeSelectorTerm, PodSpec, Taint, Toleration
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.edits import FieldEdit
from compiler.syntax.paths import value_at


@dataclass(frozen=True, slots=True)
class Condition:
    """A role's demand on a node: one of the terms. label, values: where it is a single label's value, one of these.
    in_selector: written in the node selector."""

    text: str
    terms: tuple[NodeSelectorTerm, ...]
    label: str = ""
    values: tuple[str, ...] = ()
    in_selector: bool = False


class ClosedNodes:
    """The nodes as they are once all are back, and which of them a role can use."""

    def __init__(self, nodes: Sequence[NodeSpec]) -> None:
        self.nodes = tuple(map(returned_node, nodes))
        self._known: dict[NodeRequirement, Mapping[str, str]] = {}

    def reasons(self, pod: PodSpec) -> Mapping[str, str]:
        """Return the values in texts about a role: `unmatched` and `near`, or `demanded`, or `matched` and `tainted`;
        for a role that can use some nodes `open`, `hold` and `tainted`."""
        key = node_requirement(pod)
        if key not in self._known:
            self._known[key] = self._reasons(pod)
        return self._known[key]

    def owners(self, pod: PodSpec, resource: str) -> dict[str, str]:
        """Return the values in texts about nodes that have a resource, if labels or taints close all of them to the
        pod."""
        with_it = {n for n, node in enumerate(self.nodes) if node.allocatable.get(resource)}
        conditions = _conditions(pod)
        selected = [n for n in self._matching(conditions) if n in with_it]
        tainted = Counter(taints for n in selected if (taints := untolerated_taints(self.nodes[n], pod)))
        if not with_it or sum(tainted.values()) < len(selected):
            return {}
        if not selected:
            demanded = ", ".join(condition.text for condition in conditions)
            verb = "has it and does" if len(with_it) == 1 else "have it and do"
            return {"owners": f"{count_text(len(with_it), 'node')} {verb} not match {demanded}"}
        verb = "has" if len(selected) == 1 else "have"
        owners = f"{count_text(len(selected), 'node')} {verb} it; {_tainted_text(tainted, len(selected))}"
        return {"owners": f"{owners}, which the role does not tolerate"}

    def edits(self, pod: PodSpec, n: int) -> tuple[str, ...]:
        """Return the edits with which the role can use node n as well; () where labels and taints allow it."""
        node, (unmet, is_open) = self.nodes[n], self._unmet(pod, n)
        labels = [_label_edit(condition, node, is_open) or _term_edit(condition, node) for condition in unmet]
        return (*labels, *(f"toleration {_toleration_text(taint)}" for taint in untolerated_taints(node, pod)))

    def field_edits(self, pod: PodSpec, n: int, document: Document, base: FieldPath) -> list[FieldEdit]:
        """Return the same in the pod spec at `base` of the document; [] where an affinity has to change its shape."""
        node, (unmet, is_open) = self.nodes[n], self._unmet(pod, n)
        found = list[FieldEdit]()
        for condition in unmet:
            value = node.labels.get(condition.label)
            place = (*base, "nodeSelector", condition.label) if condition.in_selector and not is_open else None
            if condition.values and not condition.in_selector:
                place = _end_of_values(condition, document, base)
            if value is None or place is None:
                return []
            found.append(FieldEdit(document, place, value))
        tolerations = [_toleration(taint) for taint in untolerated_taints(node, pod)]
        place = (*base, "tolerations")
        if place not in document.positions:
            return [*found, *([FieldEdit(document, place, tolerations)] if tolerations else ())]
        written = document.value_at(*place)
        number = len(written) if isinstance(written, list) else 0
        return [*found, *(FieldEdit(document, (*place, at), new) for at, new in enumerate(tolerations, number))]

    def _unmet(self, pod: PodSpec, n: int) -> tuple[list[Condition], bool]:
        """Return the role's demands that node n lacks, and whether the role can use other nodes."""
        conditions = _conditions(pod)
        is_open = any(not untolerated_taints(self.nodes[other], pod) for other in self._matching(conditions))
        return [condition for condition in conditions if not self._mask(condition) >> n & 1], is_open

    def _reasons(self, pod: PodSpec) -> Mapping[str, str]:
        conditions = _conditions(pod)
        selected, demanded = self._matching(conditions), ", ".join(condition.text for condition in conditions)
        if not selected:
            return self._first_unmatched(conditions) | {"demanded": demanded}
        tainted = Counter(taints for n in selected if (taints := untolerated_taints(self.nodes[n], pod)))
        found = {"tainted": _tainted_text(tainted, len(selected))} if tainted else {}
        number, usable = len(selected), len(selected) - sum(tainted.values())
        if usable:
            return found | {"open": count_text(usable, "node"), "hold": "holds" if usable == 1 else "hold"}
        there = f"there {'is' if number == 1 else 'are'} {count_text(number, 'node')}"
        matched = f"{count_text(number, 'node')} match{'es' if number == 1 else ''} {demanded}"
        return found | {"matched": matched if demanded else there}

    def _first_unmatched(self, conditions: Sequence[Condition]) -> dict[str, str]:
        """Return the first condition that no node meets, and its probable intention."""
        missing = next((condition for condition in conditions if not self._mask(condition)), None)
        if missing is None:
            return {}
        near = self._near(missing)
        return {"unmatched": missing.text} | ({"near": near} if near else {})

    def _near(self, condition: Condition) -> str:
        """Return the probable intention of the condition's rows that no node meets, else the existing values."""
        every = (row for term in condition.terms for row in term.label_expressions)
        rows = [row for row in every if not self._mask(_label_condition(row))]
        if meant := list(dict.fromkeys(text for row in rows for text in self._meant(row))):
            return f"did you mean {' or '.join(meant[:MAX_LISTED])}?"
        there = dict.fromkeys(text for row in rows if (text := self._there(row)))
        return ", and ".join(there)

    def _meant(self, row: Expression) -> Iterator[str]:
        """Yield the values of the label that are spelt like the wanted ones, or its only one; or the label spelt like
        it."""
        values = self._values_of(row.key)
        if not values and row.operator in ("In", "Exists", "Gt", "Lt"):
            if label := did_you_mean(row.key, {key for node in self.nodes for key in node.labels}):
                yield f"the label {label}"
        elif row.operator == "In":
            near = [value for wanted in row.values if (value := did_you_mean(wanted, values))]
            for value in near or (values if len(values) == 1 else ()):
                yield f"{value} ({count_text(values[value], 'node')})"

    def _there(self, row: Expression) -> str:
        """Return the most frequent values of the label."""
        values = self._values_of(row.key)
        most = sorted(values, key=lambda value: (-values[value], value))[:MAX_LISTED]
        listed = [f"{value} ({count_text(values[value], 'node')})" for value in most]
        is_named = row.operator in ("In", "Like", "Unlike")
        return f"there is {short_list(listed, len(values))}" if is_named and listed else ""

    def _values_of(self, label: str) -> Counter[str]:
        """Return the values of the label, with how many nodes have each."""
        return Counter(node.labels[label] for node in self.nodes if label in node.labels)

    def _matching(self, conditions: Iterable[Condition]) -> list[int]:
        """Return the nodes that meet all these conditions, taints aside."""
        mask = self._masks.all_nodes
        for condition in conditions:
            mask &= self._mask(condition)
        return [n for n, bit in enumerate(reversed(f"{mask:b}")) if bit == "1"]

    def _mask(self, condition: Condition) -> int:
        pod = PodSpec({}, node_affinity=condition.terms, tolerations=(Toleration(operator="Exists"),))
        return self._masks.nodes_matching(node_requirement(pod))

    @cached_property
    def _masks(self) -> NodeMasks:
        return NodeMasks(self.nodes)


def _conditions(pod: PodSpec) -> list[Condition]:
    """Label by label; an affinity with alternatives is one condition."""
    found = []
    if pod.node_name:
        named = NodeSelectorTerm((), (Expression("metadata.name", "In", (pod.node_name,)),))
        found.append(Condition(f"the name {pod.node_name}", (named,)))
    for key, value in sorted(pod.node_selector.items()):
        found.append(_label_condition(Expression(key, "In", (value,)), in_selector=True))
    terms = pod.node_affinity or ()
    if len(terms) == 1 and not terms[0].field_expressions and terms[0].label_expressions:
        return [*found, *map(_label_condition, terms[0].label_expressions)]
    if pod.node_affinity is not None:
        found.append(Condition(" or ".join(map(_term_text, terms)) or "an affinity without terms", terms))
    return found


def _label_condition(row: Expression, in_selector: bool = False) -> Condition:
    values = row.values if row.operator == "In" else ()
    return Condition(_expression_text(row), (NodeSelectorTerm((row,)),), row.key, values, in_selector)


def _term_text(term: NodeSelectorTerm) -> str:
    return " and ".join(map(_expression_text, (*term.label_expressions, *term.field_expressions))) or "nothing"


def _expression_text(row: Expression) -> str:
    match row.operator:
        case "In" if len(row.values) == 1:
            return f"{row.key}={row.values[0]}"
        case "In" | "NotIn":
            return f"{row.key} {'not ' if row.operator == 'NotIn' else ''}in ({', '.join(row.values)})"
        case "Exists":
            return row.key
        case "DoesNotExist":
            return f"no {row.key}"
        case "Like" | "Unlike":
            return f"{row.key} {'un' if row.operator == 'Unlike' else ''}like {' or '.join(row.values)}"
    return f"{row.key} {'above' if row.operator == 'Gt' else 'below'} {', '.join(row.values)}"


def _label_edit(condition: Condition, node: NodeSpec, is_open: bool) -> str:
    """Return the value of a single label; "" where that does not do. is_open: whether the role can use other nodes,
    which it should keep."""
    value = node.labels.get(condition.label)
    if not condition.values or value is None:
        return ""
    if condition.in_selector and not is_open:
        return f"nodeSelector {condition.label}: {value}"
    place = "nodeAffinity instead of nodeSelector" if condition.in_selector else "nodeAffinity"
    return f"{place} {condition.label} in ({', '.join((*condition.values, value))})"


def _end_of_values(condition: Condition, document: Document, base: FieldPath) -> FieldPath | None:
    """Return the place for one more value in the condition's row of the only term of a node affinity."""
    terms = (*base, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    rows = value_at(document.data, (*terms, 0, "matchExpressions"))  # None where an annotation asks for the nodes
    for number, row in enumerate(rows or ()):
        if (row["key"], row["operator"], tuple(row.get("values") or ())) == (condition.label, "In", condition.values):
            return (*terms, 0, "matchExpressions", number, "values", len(condition.values))
    return None


def _term_edit(condition: Condition, node: NodeSpec) -> str:
    """Return another value in a row of one of several terms that the node meets in all else; if there is none, the text
    without all of it."""
    for term in condition.terms if len(condition.terms) > 1 else ():
        unmet = [row for row in term.label_expressions if not _is_met(NodeSelectorTerm((row,)), node)]
        rest = _is_met(NodeSelectorTerm((), term.field_expressions), node) if term.field_expressions else True
        if rest and len(unmet) == 1 and unmet[0].operator == "In" and unmet[0].key in node.labels:
            row = unmet[0]
            return f"nodeAffinity {row.key} in ({', '.join((*row.values, node.labels[row.key]))})"
    return f"without {condition.text}"


def _is_met(term: NodeSelectorTerm, node: NodeSpec) -> bool:
    pod = PodSpec({}, node_affinity=(term,), tolerations=(Toleration(operator="Exists"),))
    return bool(NodeMasks((node,)).nodes_matching(node_requirement(pod)))


def _tainted_text(nodes_by_taints: Mapping[tuple[Taint, ...], int], selected: int) -> str:
    """ "all have taint dedicated=a100:NoSchedule"; or how many have which."""
    order = sorted(nodes_by_taints, key=lambda taints: (-nodes_by_taints[taints], str(taints)))
    listed = []
    for taints in order[:MAX_LISTED]:
        number, names = nodes_by_taints[taints], " and ".join(map(taint_text, taints))
        who = f"{number} {'has' if number == 1 else 'have'}"
        if number == selected:
            who = "it has" if number == 1 else "all have"
        listed.append(f"{who} taint{'s' if len(taints) > 1 else ''} {names}")
    return short_list(listed, len(order))


def taint_text(taint: Taint) -> str:
    """Return the taint as kubectl writes it."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _toleration(taint: Taint) -> dict[str, str]:
    how = {"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}
    return {"key": taint.key, **how, "effect": taint.effect}


def _toleration_text(taint: Taint) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in _toleration(taint).items())}}}"
