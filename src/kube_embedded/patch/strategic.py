"""Merge patches: RFC 7386, and the strategic one, which knows from the schema which lists are merged item by item.

Directives: `$patch: replace|delete|merge`, `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_apimachinery.admission import Object
from kube_embedded.base.errors import ApiError, bad_request
from kube_embedded.patch.json_operations import copied, go_type, json_type, same, shown, without_nulls
from kube_embedded.schema.model import Schema


def merge_patch(obj: Object, patch: Any) -> Object:
    """A patched copy, which shares with the object what the patch does not touch.

    Raises ApiError 400 for a patch that is no object.
    """
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if type(patch) is not dict:
        found = json_type(patch)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    return _merged(obj, patch)


def _merged(target: Object, patch: Object) -> Object:
    merged = dict(target)
    for name, value in patch.items():
        before = target.get(name)
        if value is None:
            merged.pop(name, None)
        elif type(value) is dict and type(before) is dict:
            merged[name] = _merged(before, value)
        else:
            merged[name] = without_nulls(value)
    return merged


Identity = Callable[[Any], Any]

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
ELEMENT_ORDER = "$setElementOrder"
DELETE_FROM_LIST = "$deleteFromPrimitiveList"
_ABSENT = object()


def strategic_merge_patch(obj: Object, patch: Any, schema: Schema) -> Object:
    """A patched copy of an object of a built-in kind; raises ApiError 400, 422, or 500 as the real server."""
    if patch is None:
        patch = {}
    if type(patch) is not dict:
        raise bad_request(f"json: cannot unmarshal {json_type(patch)} into Go value of type map[string]interface {{}}")
    return _merge_maps(copied(obj), copied(patch), schema)


def _merge_maps(original: Object, patch: Object, schema: Schema | None) -> Object:
    if DIRECTIVE in patch:
        return _directed(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, schema)
    for key in sorted(patch, key=lambda name: not name.startswith(DELETE_FROM_LIST)):
        value = patch[key]
        if key.startswith(DELETE_FROM_LIST):
            _delete_from_list(original, _list_named(key, DELETE_FROM_LIST), value)
        elif value is None:
            original.pop(key, None)
        else:
            _merge_entry(original, key, value, _part(schema, key))
    return original


def _directed(patch: Object) -> Object:
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: Any, patch: Object) -> ApiError:
    return ApiError(500, "", f"unknown patch type: {shown(directive)} in map: {shown(patch)}")


def _merge_entry(original: Object, key: str, value: Any, schema: Schema | None) -> None:
    before = original.get(key, _ABSENT)
    if type(before) is dict and type(value) is dict:
        original[key] = value if _strategy(schema) == "replace" else _merge_maps(before, value, schema)
    elif type(before) is list and type(value) is list:
        original[key] = _merge_lists(before, value, schema) if _strategy(schema) == "merge" else value
    else:
        kept = _without_directives(without_nulls(value))
        if kept is _ABSENT:
            original.pop(key, None)
        else:
            original[key] = kept


def _part(schema: Schema | None, name: str) -> Schema | None:
    if schema is None:
        return None
    return schema.properties.get(name, schema.additional)


def _strategy(schema: Schema | None) -> str:
    if schema is None:
        return ""
    return next((strategy for strategy in sorted(schema.patch_strategies) if strategy != "retainKeys"), "")


def _without_directives(value: Any) -> Any:
    """A value that is new to the object: what carries a directive is left out."""
    if type(value) is dict:
        if DIRECTIVE in value:
            return _ABSENT
        kept = {name: _without_directives(entry) for name, entry in value.items()}
        return {name: entry for name, entry in kept.items() if entry is not _ABSENT}
    if type(value) is list:
        return [item for item in map(_without_directives, value) if item is not _ABSENT]
    return value


def _retain_keys(original: Object, patch: Object) -> None:
    """`$retainKeys`: only these keys stay, and the patch may set no others."""
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    if type(retained) is not list:
        raise bad_request("invalid patch format of retainKeys")
    for name, value in patch.items():
        is_list_directive = name.startswith((DELETE_FROM_LIST, ELEMENT_ORDER))
        if value is not None and not is_list_directive and name not in retained:
            raise bad_request("invalid patch format of retainKeys")
    for name in [name for name in original if name not in retained]:
        del original[name]


def _list_named(key: str, prefix: str) -> str:
    """The list that a directive like `$setElementOrder/containers` speaks of."""
    head, slash, name = key.partition("/")
    if head != prefix or not slash:
        what = "primitive list" if prefix == DELETE_FROM_LIST else "setElementOrder list"
        raise bad_request(f"invalid patch format of {what}")
    return name


def _delete_from_list(original: Object, name: str, deleted: Any) -> None:
    before = original.get(name)
    if deleted is None:
        original.pop(name, None)
    elif type(before) is list and type(deleted) is list:
        original[name] = [item for item in before if not any(same(item, gone) for gone in deleted)]


def _merge_ordered_lists(original: Object, patch: Object, schema: Schema | None) -> None:
    """`$setElementOrder`: merge the list it speaks of, then put its items into that order."""
    for key in [name for name in patch if name.startswith(ELEMENT_ORDER)]:
        order = patch.pop(key)
        name = _list_named(key, ELEMENT_ORDER)
        before, value = original.get(name, _ABSENT), patch.get(name, _ABSENT)
        for found in (order, before, value):
            if found is not _ABSENT and type(found) is not list:
                raise ApiError(500, "", f"expected a []interface {{}}, but received a {go_type(found)}")
        if before is _ABSENT and value is _ABSENT:
            continue
        list_schema = _part(schema, name)
        key_of = _identity(list_schema)
        if value is not _ABSENT:
            _check_order(value, order, key_of)
        merged = _merge_unordered(before, value, list_schema)
        places = [] if before is _ABSENT else _places(before, value, list_schema, key_of)
        original[name] = _arranged(merged, order, places, key_of)
        patch.pop(name, None)


def _merge_unordered(before: Any, value: Any, schema: Schema | None) -> list[Any]:
    if value is _ABSENT:
        return list(before)
    if before is _ABSENT:
        return list(_without_directives(value))
    return _merge_lists(before, value, schema) if _strategy(schema) == "merge" else list(value)


def _check_order(patch: list[Any], order: list[Any], key_of: Identity) -> None:
    """The items of a patch must stand in the order that it asks for; a directive behind all of them is one too many."""
    if not patch or not order:
        return
    waiting = [item for item in patch if not (type(item) is dict and item.get(DIRECTIVE) == "delete")]
    for wanted in order:
        while waiting and type(waiting[0]) is dict and DIRECTIVE in waiting[0]:
            waiting.pop(0)
        if waiting and same(key_of(waiting[0]), key_of(wanted)):
            waiting.pop(0)
    if waiting:
        why = f"The order in patch list:\n{shown(patch)}\n doesn't match {ELEMENT_ORDER} list:\n{shown(order)}\n"
        raise ApiError(500, "", why)


def _places(before: list[Any], value: Any, schema: Schema | None, key_of: Identity) -> list[Any]:
    """The order of the server's list as the merge leaves it behind: new items stand where deleted ones made room."""
    if value is _ABSENT or _strategy(schema) != "merge" or not all(type(item) is dict for item in (*before, *value)):
        return before
    places, length = list(before), len(before)
    for gone in [key_of(item) for item in value if item.get(DIRECTIVE) == "delete"]:
        kept = [item for item in places[:length] if not same(key_of(item), gone)]
        places[: len(kept)], length = kept, len(kept)
    for item in value:
        if length == len(places):
            break
        if DIRECTIVE not in item and not any(same(key_of(found), key_of(item)) for found in places[:length]):
            places[length], length = item, length + 1
    return places


def _identity(schema: Schema | None) -> Identity:
    merge_key = schema.patch_merge_key if schema is not None else ""

    def key_of(item: Any) -> Any:
        if type(item) is not dict or not merge_key:
            return item
        if merge_key not in item:
            raise ApiError(500, "", f"map: {shown(item)} does not contain declared merge key: {merge_key}")
        return item[merge_key]

    return key_of


def _merge_lists(original: list[Any], patch: list[Any], schema: Schema | None) -> list[Any]:
    """Items of the patch merged into those of the same key; a list of scalars is merged as a set."""
    if not original and not patch:
        return original
    types = {type(item) for item in (*original, *patch)}
    if list in types:
        message = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", message, {})
    if len(types) > 1:
        raise ApiError(500, "", f"list element types are not identical: {shown([original, patch])}")
    key_of = _identity(schema)
    if types != {dict}:
        added = [item for index, item in enumerate(patch) if item not in original and item not in patch[:index]]
        return _arranged([*original, *added], patch, original, key_of)
    if schema is None or not schema.patch_merge_key:
        raise ApiError(500, "", "cannot merge lists without merge key")
    original, patch = _directed_items(original, patch, key_of)
    return _arranged(_merge_items(original, patch, schema, key_of), patch, original, key_of)


def _directed_items(original: list[Any], patch: list[Any], key_of: Identity) -> tuple[list[Any], list[Any]]:
    """Carry out the directives among the items of a patch; what is left of both lists."""
    plain = [item for item in patch if DIRECTIVE not in item]
    replaces = False
    for item in patch:
        match item.get(DIRECTIVE, _ABSENT):
            case "delete":
                gone = key_of(item)
                original = [kept for kept in original if not same(key_of(kept), gone)]
            case "replace":
                replaces = True
            case "merge":
                raise ApiError(500, "", "merging lists cannot yet be specified in the patch")
            case unknown if unknown is not _ABSENT:
                raise _unknown_directive(unknown, item)
    return (plain, []) if replaces else (original, plain)


def _merge_items(original: list[Any], patch: list[Any], schema: Schema, key_of: Identity) -> list[Any]:
    merged = list(original)
    for item in patch:
        key = key_of(item)
        place = next((index for index, found in enumerate(merged) if same(key_of(found), key)), None)
        if place is None:
            merged.append(item)
        else:
            merged[place] = _merge_maps(merged[place], item, schema.items)
    return merged


def _arranged(merged: list[Any], order: list[Any], server_order: list[Any], key_of: Identity) -> list[Any]:
    """Items named by the order stand in it; others go before the first of those that they preceded on the server."""
    places = [key_of(item) for item in order]
    server_places = [key_of(item) for item in server_order]

    def place(item: Any, among: list[Any]) -> int:
        key = key_of(item)
        return next((index for index, found in enumerate(among) if same(found, key)), -1)

    ordered = sorted((item for item in merged if place(item, places) >= 0), key=lambda item: place(item, places))
    others = sorted((item for item in merged if place(item, places) < 0), key=lambda item: place(item, server_places))
    arranged: list[Any] = []
    while ordered and others:
        left, right = place(others[0], server_places), place(ordered[0], server_places)
        arranged.append((others if 0 <= left < right else ordered).pop(0))
    return [*arranged, *others, *ordered]
