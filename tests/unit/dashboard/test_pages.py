"""Pages as text, and the form that plans."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import httpx
import pytest

from spinney.api.labels import EXPLANATION, PLAN, PLAN_SIGNATURE
from spinney.core.scheduling.plan import Assignment, Plan, encode
from spinney.core.view.explanation import GangExplanation, Place
from spinney.core.view.plan_result import DisplacedPod, GangResult, PlanResult, WorkloadResult
from spinney.core.view.topology_usage import TopologyUse
from spinney.serve.dashboard.auth import AuthSettings
from spinney.serve.dashboard.boxes import fill_of
from spinney.serve.dashboard.data_sources import PlanRefused, Questions
from spinney.serve.dashboard.history import sample_of
from spinney.serve.dashboard.page_handlers import MOST_BYTES
from spinney.serve.dashboard.server import application
from spinney.serve.dashboard.streams import Streams
from unit.dashboard.site import URL, desk_of, site
from unit.dashboard.world import BLOCK, RACK, World, hall

EVIL = "<script>alert(1)</script>"


def explained() -> World:
    world = hall()
    told = {
        "version": 1,
        "state": "Unschedulable",
        "at": "2026-01-01T12:00:00Z",
        "lines": ["for programs", "The gang needs 9 pods", "node-group b0/b0-r0: too small"],
        "level": RACK,
        "best": [{"path": ["b0", "b0-r0"], "holds": 2, "of": 4, "short": {"nvidia.com/gpu": 16, "memory": 1073741824}}],
        "blocked": {"insufficient nvidia.com/gpu": 2},
        "occupied": {"default/placed": 2},
        "fitsIf": [
            {"level": "example.com/block"},
            {"level": None},
            {"count": 1},
            {"victims": [{"gang": "default/placed"}], "victimCount": 2, "gangs": ["default/placed"]},
        ],
    }
    world.gang("waiting", queue="other", annotations={EXPLANATION: json.dumps(told)})
    return world


async def test_b5_the_overview_has_capacity_reach_and_reasons() -> None:
    async with site(explained()) as client:
        text = (await client.get("/")).text
    assert "of 128 used" in text
    assert "The gang needs 9 pods" in text
    assert "Pods of 8 GPUs" in text


async def test_k2_a_workload_that_is_no_gang_by_mistake_is_on_every_page() -> None:
    world = hall()
    world.mistaken("train-0", "train", "Job default/train: found 'rak'")
    async with site(world) as client:
        for path in ("/", "/gangs", "/gangs?state=waits", "/gangs/default/train"):
            text = (await client.get(path)).text
            assert "Job default/train: found &#39;rak&#39;" in text, path
        world.pods.put(("default", "train-0"), None)
        assert "Job default/train" not in (await client.get("/")).text
        assert (await client.get("/gangs/default/train")).status_code == 404


async def test_k15_a_node_that_is_lost_cordoned_or_tainted_says_so_on_its_page_and_on_that_of_its_gangs() -> None:
    world = hall()
    async with site(world) as client:
        assert "not ready" not in (await client.get("/nodes/b0-r0-n0")).text
        place = {BLOCK: "b0", RACK: "b0-r0"}
        world.node("b0-r0-n0", ready=False, cordoned=True, taints=("nvidia.com/gpu", "present"), labels=place)
        page = (await client.get("/nodes/b0-r0-n0")).text
        assert "not ready" in page and "cordoned" in page and "nvidia.com/gpu=present:NoSchedule" in page
        told = "1 of its pods runs on node b0-r0-n0, which is not ready"
        assert told in (await client.get("/gangs/default/placed")).text
        assert "default/placed" in (await client.get("/gangs?q=not+ready")).text
        world.node("b0-r0-n0", labels=place)
        assert told not in (await client.get("/gangs/default/placed")).text


async def test_k15_the_score_of_a_gang_stands_beside_the_best_that_empty_nodes_would_give() -> None:
    world = hall()
    world.gang("wide", annotations={"spinney.dev/placement-score": "0.5000"})
    for at, node in enumerate([*(f"b1-r0-n{at}" for at in range(4)), "b1-r1-n0"]):
        world.pod(f"wide-{at}", "wide", node)
    async with site(world) as client:
        assert "0.50 of at most 0.50" in (await client.get("/gangs/default/wide")).text


async def test_k15_the_time_of_a_reason_is_on_the_page_of_its_gang() -> None:
    async with site(explained()) as client:
        text = (await client.get("/gangs/default/waiting")).text
    assert 'Reason as of</dt><dd><time datetime="2026-01-01T12:00:00Z"' in text


async def test_b5_every_accelerator_has_its_capacity_and_reach() -> None:
    world = hall()
    world.topology("other", rack="example.com/pool")
    world.node("amd", gpus=4, kind="amd.com/gpu", labels={"example.com/pool": "p"})
    async with site(world) as client:
        text = (await client.get("/")).text
    assert "of 128 used" in text
    assert "amd.com/gpu: 0 of 4 used, 4 free" in text
    assert "Pods of 4 GPUs" in text


async def test_k15_a_waiting_gang_has_a_table_of_domains_and_ways_out() -> None:
    async with site(explained()) as client:
        text = (await client.get("/gangs/default/waiting")).text
    assert 'b0/b0-r0</th><td class="number">2 of 4</td><td>1Gi memory, 16 nvidia.com/gpu</td>' in text
    ways = [f"<li>{way}</li>" for way in ("in one block", "without the requirement", "with 1 pod")]
    assert all(way in text for way in [*ways, "<li>without 2 pods of default/placed</li>"])
    assert "2 nodes insufficient nvidia.com/gpu" in text
    assert '<a href="/gangs/default/placed">default/placed</a>' in text
    assert "too small" not in text.partition("What is missing")[0]


@pytest.mark.parametrize("told", ["", "[]", "{", '{"version":1}', '{"version":1,"best":7,"fitsIf":{},"blocked":[1]}'])
async def test_an_explanation_that_others_wrote_does_not_break_a_page(told: str) -> None:
    world = hall()
    world.gang("waiting", annotations={EXPLANATION: told})
    async with site(world) as client:
        assert (await client.get("/gangs/default/waiting")).status_code == 200


@pytest.mark.parametrize("signature", [{}, {PLAN_SIGNATURE: f"v1 - 1 {'0' * 64}"}], ids=["unsigned", "wrongly signed"])
async def test_k15_a_forged_plan_makes_no_page_say_that_pods_are_being_bound(signature: dict[str, str]) -> None:
    world = hall()
    world.gang("waiting", annotations={PLAN: encode(Plan(1, "bind", (Assignment("u", "n"),))), **signature})
    async with site(world) as client:
        page, rows = [(await client.get(path)).text for path in ("/gangs/default/waiting", "/gangs")]
    assert "a plan is recorded, which only its scheduler can verify; 0 of its 1 pods are bound" in page
    assert "being bound" not in page + rows


async def test_b5_htmx_gets_only_the_part_that_changes_and_the_address() -> None:
    async with site(hall()) as client:
        answer = await client.get("/gangs?state=waits&queue=&q=", headers={"hx-request": "true"})
    assert "<html" not in answer.text
    assert answer.headers["hx-push-url"] == "/gangs?state=waits"


@pytest.mark.parametrize("path", ["/gangs/default/nobody", "/nodes/nobody", "/tree?topology=nobody", "/nowhere"])
async def test_what_is_not_there_is_said(path: str) -> None:
    async with site(hall()) as client:
        answer = await client.get(path)
    assert answer.status_code == 404
    assert "nobody" in answer.text or "nowhere" in answer.text


async def test_a_cluster_without_anything_has_pages_too() -> None:
    async with site(World()) as client:
        for path in ("/", "/tree", "/gangs", "/topologies", "/history"):
            assert (await client.get(path)).status_code == 200, path


async def test_b5_names_in_addresses_and_words_of_others_are_escaped() -> None:
    questions = Questions(uses=lambda: [TopologyUse(EVIL, EVIL, False, EVIL)], trouble=lambda: EVIL)
    async with site(hall(), questions) as client:
        for path in ("/gangs", "/tree", "/topologies"):
            text = (await client.get(path, params={"q": EVIL, "gang": f"a/{EVIL}", "topology": ""})).text
            assert EVIL not in text
            assert "&lt;script&gt;alert(1)" in text


async def test_b5_lint_is_on_the_page_of_topologies() -> None:
    world = hall()
    world.node("half", labels={"example.com/block": "b0"})
    async with site(world) as client:
        text = (await client.get("/topologies")).text
    assert "half" in text.partition("Problems")[2]


async def planned(questions: Questions, **form: str) -> tuple[int, str]:
    async with site(hall(), questions) as client:
        answer = await client.post("/plan", data=form)
        return answer.status_code, answer.text


async def refuse(text: str) -> PlanRefused:
    return PlanRefused(f"cannot be read: {text}")


async def forecast(text: str) -> PlanResult:
    place = Place("", RACK, RACK, ("b0", "b0-r1"), 2, 2, 2)
    story = GangExplanation("default/new-0", "Scheduled", False, places=(place,), score=1.0)
    gang = GangResult(story, True, 2, 2, 2)
    return PlanResult((WorkloadResult("PodCliqueSet", "default", "new", "the text", (gang,)),), 16)


async def test_b1_an_answer_names_gangs_and_domains() -> None:
    status, text = await planned(Questions(plan=forecast), manifest="kind: x")
    assert status == 200
    assert "It fits" in text
    assert "b0/b0-r1" in text


async def test_b5_a_plan_is_drawn_into_the_tree_before_it_is_applied() -> None:
    async def plan(text: str) -> PlanResult:
        explained = GangExplanation("default/new-0", "Scheduled", False, topology="hall", score=1.0)
        held = {"b0-r0-n1": {"nvidia.com/gpu": 4, "pods": 2}}
        gang = GangResult(explained, True, 2, 2, 2, held=held)
        return PlanResult((WorkloadResult("PodCliqueSet", "default", "new", "the text", (gang,)),), 16)

    _, text = await planned(Questions(plan=plan), manifest="kind: x")
    drawn = text.partition("Where it would go in hall")[2]
    assert "b0-r0-n1: 8 of 8 GPU used or planned, 2 pods planned for default/new-0, 1 pod of default/placed" in drawn
    assert (
        f'<rect class="g" fill="{fill_of("default/new-0")}" data-gang="default/new-0" x="0.00" width="16.00"' in drawn
    )
    assert "b0-r1" not in drawn
    assert '<span data-gang="default/new-0">' in drawn and "/gangs/default/new-0" not in drawn


async def test_b5_lists_say_how_long_a_gang_waits() -> None:
    world = explained()
    since = datetime.fromtimestamp(time.time() - 7300, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.gang("waiting", queue="other", creationTimestamp=since)
    async with site(world) as client:
        for path in ("/", "/gangs", "/gangs/default/waiting"):
            assert f'<time datetime="{since}" title="since {since}">2h</time>' in (await client.get(path)).text, path
        assert 'aria-sort="descending"' in (await client.get("/gangs?sort=-waiting")).text


async def test_b5_history_is_drawn_from_samples() -> None:
    desk = desk_of(hall())
    await desk.model.refresh()
    for minute in range(3):
        desk.history.add(sample_of(desk.model, 1_767_225_600 + 60 * minute))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application(desk, Streams(desk.model), AuthSettings())), base_url=URL
    ) as client:
        text = (await client.get("/history?hours=1")).text
    assert "GPUs used in the last 1 hour: least 12, most 12, now 12" in text
    assert "Gangs waiting in the last 1 hour: least 1, most 1, now 1" in text
    assert "<title>2026-01-01 00:02: 12</title>" in text
    async with site(hall()) as client:
        assert "No sample has been taken yet" in (await client.get("/history?hours=99")).text


async def test_b1_of_many_gangs_those_that_do_not_fit_are_shown_and_the_rest_counted() -> None:
    async def many_gangs(text: str) -> PlanResult:
        move = DisplacedPod("default/other-0", "default/other", "n0", "n1")
        gangs = [GangResult(GangExplanation(f"default/g-{at}", "Scheduled", False), True, 1, 1, 1) for at in range(60)]
        gangs.append(GangResult(GangExplanation("default/late", "Unschedulable", True), False, 1, 1, 0, moves=(move,)))
        whole = WorkloadResult("Job", "default", "many", "the text", tuple(gangs))
        return PlanResult((whole, WorkloadResult("Job", "default", "done", "the text")), 16)

    _, text = await planned(Questions(plan=many_gangs), manifest="kind: x")
    assert text.index("default/late") < text.index("default/g-0")
    assert "It would fit after 1 move: default/other-0 on n0 to n1" in text
    assert "and 11 gangs more" in text
    assert "Nothing is to be placed for it." in text


async def test_b1_what_cannot_be_planned_is_a_sentence_and_the_text_stays() -> None:
    status, text = await planned(Questions(plan=refuse), manifest=EVIL)
    assert status == 200
    assert "cannot be read: &lt;script&gt;" in text
    assert text.count(EVIL) == 0


@pytest.mark.parametrize(
    ("form", "status"), [({}, 400), ({"manifest": " \n"}, 400), ({"manifest": "x" * MOST_BYTES}, 413)]
)
async def test_b1_a_form_that_is_empty_or_too_long_is_refused(form: dict[str, str], status: int) -> None:
    assert (await planned(Questions(plan=refuse), **form))[0] == status


async def test_b1_a_body_that_no_form_sends_is_refused() -> None:
    async with site(hall(), Questions(plan=refuse)) as client:
        for body in (b"\xff\xfe", b"a" * 100, b"&".join([b"a=b"] * 20)):
            assert (await client.post("/plan", content=body)).status_code == 400
