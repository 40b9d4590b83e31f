"""Who may come in, and what browsers are told."""

from __future__ import annotations

import pytest

from spinney.serve.dashboard.auth import COOKIE, AuthSettings
from unit.dashboard.site import URL, site
from unit.dashboard.world import hall

TOKEN = "sixteen characters and more"
EVERYWHERE = (
    "/",
    "/tree",
    "/gangs",
    "/gangs/default/placed",
    "/queues",
    "/topologies",
    "/plan",
    "/nowhere",
    "/static/style.css",
)


@pytest.mark.parametrize("path", EVERYWHERE)
async def test_b5_every_answer_forbids_whatever_is_not_ours(path: str) -> None:
    async with site(hall()) as client:
        headers = (await client.get(path)).headers
    policy = headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not any("unsafe" in each or "http" in each for each in policy)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", EVERYWHERE[:-1])
async def test_b5_pages_have_no_script_or_style_of_their_own(path: str) -> None:
    async with site(hall()) as client:
        text = (await client.get(path)).text
    assert " style=" not in text
    assert "<style" not in text
    assert " onclick=" not in text
    assert all("src=" in each for each in text.split("<script")[1:])
    assert "http://" not in text and "https://" not in text


@pytest.mark.parametrize("host", ["127.0.0.1:8088", "localhost", "localhost:9000", "[::1]:8088", "127.1.2.3"])
async def test_names_of_this_machine_lead_here(host: str) -> None:
    async with site(hall()) as client:
        assert (await client.get("/", headers={"host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8088", "localhost.evil.example", "", "127.0.0.1@evil"])
async def test_b5_a_name_of_somebody_else_does_not_lead_here(host: str) -> None:
    async with site(hall()) as client:
        answer = await client.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "placed" not in answer.text


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_b5_nothing_can_be_written(method: str) -> None:
    async with site(hall()) as client:
        assert (await client.request(method, "/gangs/default/placed")).status_code == 405


@pytest.mark.parametrize("path", ["/", "/gangs", "/tree", "/topologies"])
async def test_b5_only_the_plan_takes_a_form(path: str) -> None:
    async with site(hall()) as client:
        assert (await client.post(path, data={"a": "b"})).status_code == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": URL},
    ],
    ids=["another host", "no origin to tell", "another port", "told so", "a neighbour"],
)
async def test_b5_a_form_of_somebody_else_is_refused(headers: dict[str, str]) -> None:
    async with site(hall()) as client:
        assert (await client.post("/plan", data={"manifest": "a"}, headers=headers)).status_code == 403


async def test_a_form_of_ours_is_taken() -> None:
    async with site(hall()) as client:
        headers = {"origin": URL, "sec-fetch-site": "same-origin"}
        assert (await client.post("/plan", data={"manifest": "a"}, headers=headers)).status_code == 503


@pytest.mark.parametrize("path", ["/", "/gangs/default/placed", "/live/gangs", "/history", "/plan", "/nowhere"])
async def test_b5_without_the_token_nothing_is_told(path: str) -> None:
    async with site(hall(), token=TOKEN) as client:
        for asked in ("", "?token=", "?token=wrong", f"?token={TOKEN}x"):
            answer = await client.get(path + asked)
            assert answer.status_code == 401
            assert "placed" not in answer.text
            assert COOKIE not in answer.cookies


async def test_b5_the_token_becomes_a_cookie_that_scripts_cannot_read() -> None:
    async with site(hall(), token=TOKEN) as client:
        answer = await client.get("/gangs", params={"state": "waits", "token": TOKEN})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/gangs?state=waits"
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=lax" in cookie and "path=/" in cookie
        assert TOKEN not in cookie
        assert (await client.get("/gangs")).status_code == 200


async def test_the_token_may_come_in_a_header_or_by_the_form() -> None:
    async with site(hall(), token=TOKEN) as client:
        assert (await client.get("/", headers={"authorization": f"Bearer {TOKEN}"})).status_code == 200
        assert (await client.get("/", headers={"authorization": "Bearer nobody"})).status_code == 401
        assert (await client.post("/enter", data={"token": "no"})).status_code == 401
        assert (await client.post("/enter", data={"token": TOKEN})).headers["location"] == "/"
        assert (await client.get("/")).status_code == 200


async def test_a_cookie_that_was_made_up_is_no_token() -> None:
    async with site(hall(), token=TOKEN) as client:
        client.cookies.set(COOKIE, AuthSettings("another token that is long").session)
        assert (await client.get("/")).status_code == 401


async def test_the_way_on_stays_here() -> None:
    async with site(hall(), token=TOKEN) as client:
        answer = await client.get(f"//evil.example/?token={TOKEN}")
        assert answer.status_code in (303, 404)
        assert not answer.headers.get("location", "/").startswith("//")


async def test_with_a_token_any_name_may_lead_here() -> None:
    async with site(hall(), token=TOKEN) as client:
        headers = {"host": "pages.example", "authorization": f"Bearer {TOKEN}"}
        assert (await client.get("/", headers=headers)).status_code == 200
