"""kill -9 in the middle of writes: what was acknowledged is there afterwards."""

from __future__ import annotations

import json
import random
import shutil
import stat
import threading
import time
from pathlib import Path

import pytest

from durability.writers import FILLING, MAPS, State, Story, Writer, state_of
from kube_embedded.base.store import Record, SqliteJournal
from stack_kit.spinney import Spinney, spinney

CLIENTS = 8
NODE = "levels: [{name: node, count: 1}]\ncapacity: {cpu: 1}\n"


@pytest.fixture
def nodes(tmp_path: Path) -> str:
    file = tmp_path / "nodes.yaml"
    file.write_text(NODE)
    return str(file)


def write_until_killed(running: Spinney, seed: int) -> tuple[list[Story], float]:
    port = int(running.url.rpartition(":")[2])
    writers = [Writer(port, number, seed) for number in range(CLIENTS)]
    seconds = random.Random(seed).uniform(0.4, 1.2)
    for writer in writers:
        writer.start()
    threading.Event().wait(seconds)
    running.kill()
    for writer in writers:
        writer.join(15)
        assert not writer.is_alive()
        assert writer.failure is None, writer.failure
    return [writer.story for writer in writers], seconds


def check_object(name: str, known: State, doubt: int | None, found: State | None) -> None:
    """The acknowledged state, or that of the one write whose answer never came."""
    if doubt is None:
        assert (found or State()) == known, f"{name}: acknowledged {known}, found {found}"
    elif found is None:
        assert doubt == -1 or not known.exists, f"{name}: acknowledged {known} and not deleted, found nothing"
    elif found != known:
        assert doubt == found.counter, f"{name}: acknowledged {known}, in doubt {doubt}, found {found}"
        assert found.version > known.version
        assert not known.exists or found.uid == known.uid


@pytest.mark.parametrize("seed", range(5))
def test_nothing_acknowledged_is_lost_and_nothing_deleted_is_back(tmp_path: Path, nodes: str, seed: int) -> None:
    state = str(tmp_path / "state")
    arguments = ("--data-dir", state, "--nodes", nodes)
    with spinney(tmp_path / "first", *arguments) as running:
        running.ready()
        old_version = int(running.http("GET", MAPS)[1]["metadata"]["resourceVersion"])
        stories, seconds = write_until_killed(running, seed)
    acknowledged = sum(story.acknowledged for story in stories)
    highest = max(story.highest for story in stories)
    assert acknowledged > CLIENTS, "the server was killed before anything was written"

    begun = time.monotonic()
    with spinney(tmp_path / "second", *arguments) as running:
        running.ready()
        back_s = time.monotonic() - begun
        listed = running.http("GET", MAPS)[1]
        found = {one["metadata"]["name"]: one for one in listed["items"]}
        assert all(one["data"]["filling"] == FILLING for one in found.values()), "half an object"
        states = {name: state_of(one) for name, one in found.items()}
        for story in stories:
            for name in story.known.keys() | story.in_doubt.keys():
                known = story.known.get(name, State())
                check_object(name, known, story.in_doubt.get(name), states.pop(name, None))
        assert not states, f"objects that nobody wrote: {states}"
        assert int(listed["metadata"]["resourceVersion"]) >= highest
        made = running.http("POST", MAPS, {"metadata": {"name": "after"}})[1]
        assert int(made["metadata"]["resourceVersion"]) > highest
        event = running.http("GET", f"{MAPS}?watch=true&resourceVersion={old_version}")[1]
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    doubts = sum(len(story.in_doubt) for story in stories)
    print(
        f"seed {seed}: killed after {seconds:.2f} s, {acknowledged} writes acknowledged "
        f"({acknowledged / seconds:.0f}/s), {doubts} in doubt, 0 lost, back in {back_s:.1f} s"
    )


def test_a_journal_cut_short_is_an_earlier_moment_and_never_a_mixture(tmp_path: Path, nodes: str) -> None:
    """A torn write-ahead log, as a machine that lost power leaves it: a prefix of the history, whole."""
    state = tmp_path / "state"
    moments: dict[int, dict[str, int]] = {}
    with spinney(tmp_path / "first", "--data-dir", str(state), "--nodes", nodes) as running:
        running.ready()
        now: dict[str, int] = {}
        for counter in range(60):
            name = f"c{counter % 7}"
            body = {"metadata": {"name": name}, "data": {"counter": str(counter)}}
            if name in now:
                _, obj = running.http("PUT", f"{MAPS}/{name}", body)
            else:
                _, obj = running.http("POST", MAPS, body)
            now = {**now, name: counter}
            moments[int(obj["metadata"]["resourceVersion"])] = now
        running.kill()

    log = state / "objects.db-wal"
    size = log.stat().st_size
    seen = set()
    for cut in random.Random(1).sample(range(size), 40):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(state, copy)
        with (copy / log.name).open("r+b") as file:
            file.truncate(cut)
        journal = SqliteJournal(copy)
        found: dict[str, int] = {}

        def load(collection: str, body: bytes, found: dict[str, int] = found) -> None:
            obj = json.loads(body)
            if collection == "/configmaps" and obj["metadata"]["namespace"] == "default":
                found[obj["metadata"]["name"]] = int(obj["data"]["counter"])

        revision = journal.replay(load)
        journal.close()
        past = [version for version in moments if version <= revision]
        assert found == (moments[max(past)] if past else {})
        seen.add(len(past))
    print(f"a log of {size} bytes cut at 40 places: {len(seen)} different moments, all whole")


def test_a_write_that_the_disk_refuses_is_not_acknowledged_and_the_next_one_works(tmp_path: Path) -> None:
    from kube_embedded.base.store import Record

    journal = SqliteJournal(tmp_path)
    good = Record(b"{}", 2, "u", "", "a", {}, {})
    broken = Record("not bytes" * 3, object(), "u", "", "b", {}, {})  # type: ignore[arg-type]
    with pytest.raises(Exception, match="type"):
        journal.write("/things", broken)
    journal.write("/things", good)
    found: list[bytes] = []
    assert journal.replay(lambda collection, body: found.append(body)) == 2
    assert found == [b"{}"]
    journal.close()


def test_the_journal_is_for_its_owner_only(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "state")
    record = Record(b"{}", 1, "u", "", "a", {}, {})
    journal.write("/secrets", record)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").iterdir()}
    journal.close()
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
