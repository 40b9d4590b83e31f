"""Sets of fields, in the very form of FieldsV1: a tree of path elements.

In a tree, `{}` is a member without children, a node that holds "." is a member with children, and any other node only
leads to members. The tree as a whole is a set; the empty tree is the empty set. Sets are ordered as FieldsV1 is
written, and no function here changes a set it was given (`insert` and `graft` build one).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from kube_embedded.apply.elements import SELF, MalformedElement, canonical, order

FieldSet: TypeAlias = dict[str, "FieldSet"]
Path: TypeAlias = tuple[str, ...]


def is_member(node: FieldSet) -> bool:
    return not node or SELF in node


def insert(fields: FieldSet, path: Sequence[str]) -> None:
    """Add a path; its parents do not become members."""
    graft(fields, path, {})


def graft(fields: FieldSet, path: Sequence[str], subtree: FieldSet) -> None:
    """Add a whole subtree at a path. The order of the set is left to `ordered`."""
    node = fields
    for element in path[:-1]:
        below = node.get(element)
        if below is None:
            below = node[element] = {}
        elif not below:
            below[SELF] = {}
        node = below
    found = node.get(path[-1])
    node[path[-1]] = subtree if found is None else _join(found, subtree)


def of_paths(*paths: str) -> FieldSet:
    """A set of plain fields, written `metadata.name`."""
    fields: FieldSet = {}
    for path in paths:
        insert(fields, [f"f:{name}" for name in path.split(".")])
    return ordered(fields)


def ordered(fields: FieldSet) -> FieldSet:
    """The same set with every level in the order of FieldsV1."""
    if len(fields) < 2:
        return {element: ordered(node) if node else {} for element, node in fields.items()}
    return {element: ordered(fields[element]) if fields[element] else {} for element in sorted(fields, key=order)}


def parse(raw: Any) -> FieldSet:
    """The set that FieldsV1 from outside stands for; raises MalformedElement."""
    fields, _ = _parse(raw)
    return ordered(fields)


def _parse(raw: Any) -> tuple[FieldSet, bool]:
    if type(raw) is not dict:
        raise MalformedElement(f"expected an object of path elements, found {type(raw).__name__}")
    children: FieldSet = {}
    member = False
    for key, value in raw.items():
        if key == SELF:
            member = True
            continue
        element = canonical(key)
        if element is None:
            continue
        below, is_itself = _parse(value)
        if is_itself and below:
            below[SELF] = {}
        children[element] = _join(children[element], below) if element in children else below
    return children, member or not children


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or left is right:
        return right
    return _join(left, right) if right else left


def _join(left: FieldSet, right: FieldSet) -> FieldSet:
    """Two nodes in one; as nodes of a set, not as sets: an empty one is a member."""
    if left is right:
        return left
    if not left or not right:
        full = left or right
        return full if is_member(full) else {SELF: {}, **full}
    joined = left.copy()
    for element, node in right.items():
        joined[element] = _join(left[element], node) if element in left else node
    if len(joined) == len(left):
        return joined
    return {element: joined[element] for element in sorted(joined, key=order)}


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is a member of both."""
    common: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None:
            continue
        both = intersection(node, other)
        if is_member(node) and is_member(other):
            common[element] = {SELF: {}, **both} if both else {}
        elif both:
            common[element] = both
    common.pop(SELF, None)
    return common


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of the left that are no members of the right; neither parents nor children of such are touched."""
    if not right:
        return left
    return _subtract(left, right, recursive=False)


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """As `difference`, but a member of the right takes all below it along."""
    if not right:
        return left
    return _subtract(left, right, recursive=True)


def _subtract(left: FieldSet, right: FieldSet, *, recursive: bool) -> FieldSet:
    rest: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None:
            rest[element] = node
            continue
        if element == SELF or (recursive and is_member(other)):
            continue
        below = _subtract(node, other, recursive=recursive)
        below.pop(SELF, None)
        if is_member(node) and not is_member(other):
            rest[element] = {SELF: {}, **below} if below else {}
        elif below:
            rest[element] = below
    return rest


def has(fields: FieldSet, path: Sequence[str]) -> bool:
    node: FieldSet | None = fields
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return node is not None and bool(path) and is_member(node)


def leaves(fields: FieldSet) -> FieldSet:
    """The members that have no children."""
    return {element: leaves(node) for element, node in fields.items() if element != SELF}


def paths(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """All members: those of a level first, then what is below it."""
    for element, node in fields.items():
        if element != SELF and is_member(node):
            yield (*prefix, element)
    for element, node in fields.items():
        if node:
            yield from paths(node, (*prefix, element))
