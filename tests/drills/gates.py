"""Planted in who is asked before a write: webhooks and roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drills.bug import answer, caught_by, swap
from kube_embedded.access.rbac import Authorizer, NoEscalation, Rule
from kube_embedded.admission import chain, webhook_client
from kube_embedded.admission.chain import WebhookCaller


@caught_by("test_webhooks::test_a_denial_is_told_with_its_message")
def a_denial_is_not_heard() -> None:
    def deaf(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda body, uid, *, mutating: replace(original(body, uid, mutating=mutating), allowed=True)

    swap(webhook_client, "decode", deaf)


def _compiled(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> None:
    def changed(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda configurations, compile_cel: change(original(configurations, compile_cel))

    swap(chain, "compile_webhooks", changed)


@caught_by("test_webhooks::test_a_failing_webhook_fails_the_request[error]", "test_webhooks::test_nobody_listens")
def a_failing_webhook_is_always_ignored() -> None:
    _compiled(lambda hooks: tuple(replace(hook, ignores_failure=True) for hook in hooks))


@caught_by(
    "test_webhooks::test_mutating_webhooks_come_in_order_and_before_validating_ones",
    "test_webhooks::test_configurations_come_in_the_order_of_their_names",
)
def webhooks_are_called_in_reverse() -> None:
    _compiled(lambda hooks: hooks[::-1])


@caught_by("test_webhooks::test_a_mutating_webhook_changes_the_object")
def what_a_webhook_changes_is_lost() -> None:
    def lost(original: Callable[..., Any]) -> Callable[..., Any]:
        async def mutate(self: Any, request: Any, warn: Any, rounds: Any, *, again: bool = False) -> Any:
            await original(self, request, warn, rounds, again=again)
            return request.object, False

        return mutate

    swap(WebhookCaller, "mutate", lost)


@caught_by(
    "test_access::test_without_a_role_nothing_is_allowed[create]", "test_access::test_at_the_scope_of_the_cluster"
)
def everybody_may_do_everything() -> None:
    answer(Authorizer, "check", None)


@caught_by("test_access::test_a_role_may_name_objects")
def the_names_in_a_role_are_not_looked_at() -> None:
    answer(Rule, "names_fit", True)


@caught_by("test_access::test_a_role_taken_away")
def a_role_is_never_forgotten() -> None:
    def once(original: Callable[..., None]) -> Callable[..., None]:
        def changed(self: Any, group: str, plural: str) -> None:
            if plural != "rolebindings" or not self._grants:
                original(self, group, plural)

        return changed

    swap(Authorizer, "changed", once)


@caught_by("test_access::test_nobody_grants_more_than_he_has", "test_access::test_nobody_binds_a_role_he_does_not_have")
def anybody_grants_anything() -> None:
    answer(NoEscalation, "handles", False)
