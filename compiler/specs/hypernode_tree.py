"""The hypernode tree: members resolved to names, and the problems of the tree.

Volcano's admission checks none of this; its scheduler marks the hypernodes not ready and schedules no topology job at
all (pkg/scheduler/api/hyper_node_info.go), so the problems are errors.

Regular expressions of members are matched by RE2, from which Go's regexp package stems (Volcano uses
regexp.MatchString). Matching time is linear in the length of the name, and memory is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.fields.label_selector import selector_matches
from compiler.specs.drafts import HyperNodeDraft, HyperNodeMember
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import value_at

MAX_MEMORY = 8 << 20
"""Bytes that a compiled pattern and its cache of states may take; larger patterns are refused."""

_TOKEN = re.compile(
    r"""\\Q.*?(?:\\E|\Z)                              # quoted text
      | \[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]          # character class
      | (?P<byte>\\C) | \\.
      | \{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\}
      | \(\?P?<(?P<name>[^>]*)>""",
    re.DOTALL | re.VERBOSE,
)
_LITERAL_PREFIX = re.compile(r"\^([a-z0-9-]+)(?![*+?{])[^|]*\Z", re.DOTALL)
"""A beginning that every matching name has; a pattern with alternatives has none."""
_MAX_COUNT_DIGITS = 8
"""RE2 reads a longer repetition count as text, Go refuses it."""


class Regex:
    """A compiled pattern. ValueError for a pattern that Go's regexp refuses, or that is too large."""

    def __init__(self, pattern: str) -> None:
        import re2

        _refuse_what_only_re2_reads(pattern)
        options = re2.Options()
        options.log_errors, options.max_mem = False, MAX_MEMORY
        try:
            self._compiled: Any = re2.compile(pattern, options=options)
        except re2.error as problem:
            raise ValueError(problem.args[0].decode("utf-8", "replace")) from None
        prefix = _LITERAL_PREFIX.match(pattern)
        self._prefix = prefix[1] if prefix else ""

    def search(self, name: str) -> bool:
        """Return whether the pattern matches a part of `name`."""
        # Most names of a cluster fail the prefix, which is a hundred times cheaper than a call of RE2.
        return name.startswith(self._prefix) and self._compiled.search(name) is not None


def _refuse_what_only_re2_reads(pattern: str) -> None:
    for token in _TOKEN.finditer(pattern):
        if token["byte"]:
            raise ValueError(r"invalid escape sequence: \C")
        if max(len(token["least"] or ""), len(token["most"] or "")) > _MAX_COUNT_DIGITS:
            raise ValueError(f"invalid repetition size: {token.group()}")
        if not (token["name"] or "").isascii():
            raise ValueError(f"invalid named capture: {token.group()}")


MAX_LOOP_SHOWN = 8
CONTRADICTIONS = frozenset({"GP345", "GP346", "GP347", "GP348"})
"""Codes of problems with which the hypernodes are not a tree."""


@dataclass(frozen=True, slots=True)
class TreeProblem:
    """A problem of the tree, with the code that it is reported by. see: a second location that belongs to it. name:
    of a member that is not there."""

    code: str
    document: Document
    path: FieldPath
    message: str
    help: str
    see: tuple[Document, FieldPath] | None = None
    name: str = ""


@dataclass(slots=True)
class _MemberResolver:
    """Resolves members to names and collects the problems."""

    nodes: Mapping[str, NodeSpec]
    hypernodes: frozenset[str]
    problems: list[TreeProblem] = field(default_factory=list)

    def resolve_members(self, draft: HyperNodeDraft) -> tuple[set[str], set[str]]:
        nodes: set[str] = set()
        hypernodes: set[str] = set()
        for member in draft.members:
            selectors = (member.name, member.pattern, member.label_expressions)
            if sum(selector is not None for selector in selectors) != 1:
                help = "give exactly one of exactMatch, regexMatch, labelMatch"
                self._add_problem("GP351", draft, member, (), "a member has one selector", help)
            elif member.type == "Node":
                nodes |= self._matching_nodes(draft, member)
            elif member.name is None:
                message = "a HyperNode member is matched by exactMatch only; Volcano ignores the others"
                self._add_problem("GP351", draft, member, (), message, "name each hypernode with exactMatch")
            elif member.name in self.hypernodes:
                hypernodes.add(member.name)
            else:
                self._add_missing("GP349", draft, member, member.name, "hypernode")
        return nodes, hypernodes

    def _matching_nodes(self, draft: HyperNodeDraft, member: HyperNodeMember) -> set[str]:
        if member.name is not None:
            if member.name in self.nodes:
                return {member.name}
            self._add_missing("GP353", draft, member, member.name, "node")
            return set()
        if member.pattern is not None:
            what = f"the pattern {member.pattern!r}"
            at: FieldPath = ("regexMatch", "pattern")
            try:
                pattern = Regex(member.pattern)
            except ValueError as problem:
                message = f"{what} does not compile: {problem}"
                self._add_problem("GP350", draft, member, at, message, "correct the regular expression")
                return set()
            found = {name for name in self.nodes if pattern.search(name)}
        else:
            what, at = "labelMatch", ("labelMatch",)
            rows = member.label_expressions or ()
            found = {name for name, node in self.nodes.items() if selector_matches(rows, node.labels)}
        if not found and self.nodes:
            self._add_problem("GP396", draft, member, at, f"{what} matches no node", "correct it, or declare the nodes")
        return found

    def _add_missing(self, code: str, draft: HyperNodeDraft, member: HyperNodeMember, name: str, what: str) -> None:
        message, help = f"there is no {what} {name!r}", f"correct the name, or add the {what}"
        self._add_problem(code, draft, member, ("exactMatch", "name"), message, help, name)

    def _add_problem(
        self,
        code: str,
        draft: HyperNodeDraft,
        member: HyperNodeMember,
        at: FieldPath,
        message: str,
        help: str,
        name: str = "",
    ) -> None:
        """at: below the member's selector."""
        path = (*member.path, "selector", *at)
        self.problems.append(TreeProblem(code, draft.document, path, message, help, name=name))


def resolve_hypernodes(
    drafts: Iterable[HyperNodeDraft], pool_hypernodes: Iterable[HyperNodeSpec], nodes: Iterable[NodeSpec]
) -> tuple[list[HyperNodeSpec], list[TreeProblem]]:
    """Return all hypernodes with their members as sorted names, and every problem of the tree."""
    drafts, out = list(drafts), list(pool_hypernodes)
    resolver = _MemberResolver(
        {node.name: node for node in nodes}, frozenset([*(draft.name for draft in drafts), *(h.name for h in out)])
    )
    for draft in drafts:
        inside, children = resolver.resolve_members(draft)
        out.append(
            HyperNodeSpec(
                draft.document, draft.name, draft.tier, draft.tier_name, tuple(sorted(inside)), tuple(sorted(children))
            )
        )
    return out, [*resolver.problems, *_tree_problems(out)]


def _tree_problems(hypernodes: Sequence[HyperNodeSpec]) -> Iterator[TreeProblem]:
    """Hypernodes with two parents or at a tier not above their members', nodes in two hypernodes, and loops."""
    by_name = {h.name: h for h in hypernodes}
    parent: dict[str, HyperNodeSpec] = {}
    leaf: dict[str, HyperNodeSpec] = {}
    for h in hypernodes:
        for name in h.hypernodes:
            child = by_name[name]
            if (other := parent.setdefault(name, h)) is not h:
                message = f"hypernode {name!r} has two parents, {other.name!r} and {h.name!r}"
                yield _membership_problem("GP345", h, other, name, message, "remove it from one of them")
            elif child.tier >= h.tier:
                path = ("spec", "tier")
                message = f"tier {h.tier} of {h.name!r} is not above tier {child.tier} of its member {name!r}"
                help = f"use {child.tier + 1} or more"
                yield TreeProblem("GP348", h.document, path, message, help, (child.document, path))
    shared: dict[tuple[str, str], list[str]] = {}
    for h in hypernodes:
        for name in h.nodes:
            if (other := leaf.setdefault(name, h)) is not h:
                shared.setdefault((other.name, h.name), []).append(name)
    for (first, second), names in shared.items():
        subject = f"node {names[0]!r} is" if len(names) == 1 else f"{len(names)} nodes, {names[0]!r} among them, are"
        message = f"{subject} in two hypernodes, {first!r} and {second!r}"
        help = "keep each node in one"
        yield _membership_problem("GP347", by_name[second], by_name[first], names[0], message, help)
    yield from _loop_problems(hypernodes, parent)


def _membership_problem(
    code: str, h: HyperNodeSpec, other: HyperNodeSpec, name: str, message: str, help: str
) -> TreeProblem:
    """name: of a member of both."""
    see = (other.document, _member_path(other, name))
    return TreeProblem(code, h.document, _member_path(h, name), message, help, see)


def _loop_problems(hypernodes: Sequence[HyperNodeSpec], parent: Mapping[str, HyperNodeSpec]) -> Iterator[TreeProblem]:
    done: set[str] = set()
    for h in hypernodes:
        path_up: dict[str, None] = {}
        name: str | None = h.name
        while name is not None and name not in done and name not in path_up:
            path_up[name] = None
            name = parent[name].name if name in parent else None
        if name is not None and name in path_up:
            names = list(path_up)
            loop = names[names.index(name) :]
            first = next(found for found in hypernodes if found.name == min(loop))
            cycle = [*loop, name] if len(loop) < MAX_LOOP_SHOWN else [*loop[:MAX_LOOP_SHOWN], "..."]
            message, help = f"hypernodes form a loop: {' in '.join(cycle)}", "remove one membership of the loop"
            yield TreeProblem("GP346", first.document, ("spec", "members"), message, help)
        done.update(path_up)


def _member_path(h: HyperNodeSpec, name: str) -> FieldPath:
    """Return the path of the member that names `name` exactly, else of the list of members."""
    members = value_at(h.document.data, ("spec", "members"))
    for index, member in enumerate(members if isinstance(members, list) else ()):
        if value_at(member, ("selector", "exactMatch", "name")) == name:
            return ("spec", "members", index)
    return ("spec", "members")


def tier_of(tier_or_name: str, hypernodes: Iterable[HyperNodeSpec]) -> int | None:
    """Return the tier of that number or tierName; where several tiers share the name, the highest; None for an unknown
    one."""
    return max((h.tier for h in hypernodes if tier_or_name in (str(h.tier), h.tier_name)), default=None)


def nodes_by_hypernode(hypernodes: Iterable[HyperNodeSpec]) -> dict[str, frozenset[str]]:
    """Hypernode -> the names of the nodes in it, at any depth."""
    found: dict[str, frozenset[str]] = {}
    for each in sorted(hypernodes, key=lambda hypernode: hypernode.tier):
        found[each.name] = frozenset(each.nodes).union(*(found.get(child, ()) for child in each.hypernodes))
    return found
