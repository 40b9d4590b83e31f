"""Mutating webhooks see each other's work; those that ask for it are called again when somebody changed it later."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import AdmissionRequest, Lookup, Verdict
from unit.serve.admission.hook_kit import Hook, MakeChain, patch_of, request_of


def adds(key: str) -> dict[str, Any]:
    return patch_of({"op": "add", "path": f"/data/{key}", "value": "set"})


async def test_webhooks_are_called_in_order_of_configuration_and_position(hook: Hook, make_chain: MakeChain) -> None:
    chain = make_chain()
    chain.set_configurations(
        [
            {"metadata": {"name": "z"}, "webhooks": [hook.webhook("third")]},
            {"metadata": {"name": "a"}, "webhooks": [hook.webhook("first"), hook.webhook("second")]},
        ],
        [],
    )
    await chain.mutate(request_of(), print)
    assert hook.asked == ["first", "second", "third"]


async def test_a_later_webhook_sees_an_earlier_ones_patch(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["one"] = adds("one")
    changed = await make_chain([hook.webhook("one"), hook.webhook("two")]).mutate(request_of(), print)
    assert hook.reviews[1][1]["request"]["object"]["data"] == {"apple": "1", "one": "set"}
    assert changed is not None and changed["data"] == {"apple": "1", "one": "set"}


async def test_ifneeded_is_called_again_after_a_later_change(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["two"] = adds("two")
    await make_chain([hook.webhook("one", reinvocationPolicy="IfNeeded"), hook.webhook("two")]).mutate(
        request_of(), print
    )
    assert hook.asked == ["one", "two", "one"]


async def test_never_is_not_called_again(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["two"] = adds("two")
    await make_chain([hook.webhook("one"), hook.webhook("two")]).mutate(request_of(), print)
    assert hook.asked == ["one", "two"]


async def test_nobody_is_called_again_for_their_own_change(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["one"] = adds("one")
    await make_chain([hook.webhook("one", reinvocationPolicy="IfNeeded"), hook.webhook("two")]).mutate(
        request_of(), print
    )
    assert hook.asked == ["one", "two"]


async def test_there_is_no_third_round(hook: Hook, make_chain: MakeChain) -> None:
    def count(review: dict[str, Any]) -> dict[str, Any]:
        return patch_of({"op": "replace", "path": "/data/apple", "value": str(len(hook.reviews))})

    hook.answers = {"one": count, "two": count}
    both = [hook.webhook(path, reinvocationPolicy="IfNeeded") for path in ("one", "two")]
    await make_chain(both).mutate(request_of(), print)
    assert hook.asked == ["one", "two", "one", "two"]


class Stamp:
    """A plug-in that sets a label when an object carries none."""

    calls = 0

    def handles(self, request: AdmissionRequest) -> bool:
        return True

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        self.calls += 1
        assert request.object is not None
        if "stamp" in request.object["data"]:
            return Verdict()
        return Verdict(object={**request.object, "data": {**request.object["data"], "stamp": "in"}})

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        return Verdict()


async def test_plugins_go_first_and_again_after_webhooks_changed_something(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["one"] = patch_of({"op": "remove", "path": "/data/stamp"})
    stamp = Stamp()
    changed = await make_chain([hook.webhook("one")], plugins=[stamp]).mutate(request_of(), print)
    assert hook.reviews[0][1]["request"]["object"]["data"]["stamp"] == "in"
    assert stamp.calls == 2
    assert changed is not None and changed["data"]["stamp"] == "in"


async def test_a_patched_object_is_normalised_before_anybody_else_sees_it(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["one"] = patch_of({"op": "add", "path": "/unknown", "value": 1})

    def prune(request: AdmissionRequest, obj: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in obj.items() if key != "unknown"}

    chain = make_chain([hook.webhook("one"), hook.webhook("two")], normalise=prune)
    assert await chain.mutate(request_of(), print) == request_of().object
    assert "unknown" not in hook.reviews[1][1]["request"]["object"]
