"""Probes are answered by a thread: a main loop that is stuck does not hide it."""

from __future__ import annotations

import asyncio
import threading
import time

import urllib3

from spinney.cli.wiring.roles.metrics_server import measured
from spinney.cli.wiring.roles.runner import probed
from spinney.drive.election.lease_thread import loop_thread

DEADLINE_S = 60.0


def get(port: int, path: str) -> tuple[int, str]:
    answer = urllib3.request("GET", f"http://127.0.0.1:{port}{path}", retries=False, timeout=DEADLINE_S)
    return answer.status, answer.data.decode()


async def test_healthz_and_readyz_say_what_is_wrong_and_nothing_else_is_served() -> None:
    alive, ready = [""], ["views are not synced"]
    async with (
        loop_thread("probes") as thread,
        probed(thread, "127.0.0.1", 0, lambda: alive[0], lambda: ready[0]) as port,
    ):
        assert await asyncio.to_thread(get, port, "/healthz") == (200, "ok\n")
        assert await asyncio.to_thread(get, port, "/readyz") == (503, "views are not synced\n")
        alive[0], ready[0] = "the main loop has not run for 16 s", ""
        assert await asyncio.to_thread(get, port, "/healthz") == (503, "the main loop has not run for 16 s\n")
        assert await asyncio.to_thread(get, port, "/readyz") == (200, "ok\n")
        assert (await asyncio.to_thread(get, port, "/metrics"))[0] == 404


async def test_a_blocked_main_loop_is_healthy_until_it_counts_as_stuck_and_is_not_ready() -> None:
    answers: list[tuple[int, str]] = []

    def ask(port: int) -> None:
        answers.extend(get(port, path) for path in ("/healthz", "/readyz"))

    async with loop_thread("probes") as thread, probed(thread, "127.0.0.1", 0, lambda: "", lambda: "") as port:
        asking = threading.Thread(target=ask, args=(port,))
        asking.start()
        end = time.monotonic() + DEADLINE_S
        while len(answers) < 2 and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - nothing on this loop runs meanwhile
        asking.join()
    assert answers == [(200, "ok\n"), (503, "the main loop did not answer within 2 s\n")]


async def test_metrics_are_served_on_their_own() -> None:
    async with measured("127.0.0.1", 0, lambda: "a 1\n") as port:
        assert await asyncio.to_thread(get, port, "/metrics") == (200, "a 1\n")
        assert (await asyncio.to_thread(get, port, "/other"))[0] == 404
