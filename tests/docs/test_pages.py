"""The pages hold what they promise: tables are up to date, links lead somewhere, tests that are named exist."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from docs.session_kit import ROOT
from spinney.api.domains import DOMAINS
from spinney.api.generated_names import DEFAULT_TOPOLOGY
from spinney.api.kinds.clustertopology import LevelStatus
from spinney.api.labels import FINALIZER_CLUSTERTOPOLOGY, MANAGED_BY_OPERATOR
from spinney.api.reserved_keys import RESERVED, ReservedKeys
from spinney.core.expansion.podcliqueset import topology_resolution

PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
REQUIREMENTS = ROOT / "docs" / "requirements.md"
COUNTS = {"T": 8, "C": 9, "L": 6, "P": 10, "G": 12, "S": 4, "D": 13, "K": 17, "B": 10, "INV": 13, "LIVE": 4, "R": 14}
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`\n]*`")
_NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def tool_named(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # data classes look for the module they are in
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_refusals_know_every_refusal_and_are_up_to_date() -> None:
    tool = tool_named("error_table")
    page = tool.PAGE.read_text(encoding="utf-8")
    assert page == tool.with_tables(page, tool.tables()), "run: python tools/error_table.py --write"


def test_a_refusal_that_no_case_reaches_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tool_named("error_table")
    monkeypatch.setattr(
        tool, "sites", lambda: {("spinney.core.admission.podcliqueset.structure", 1): "invalid(path, name, text)"}
    )
    with pytest.raises(
        SystemExit, match=r"no case in error_cases\.yaml reaches\nspinney\.core\.admission\.podcliqueset\.structure:1"
    ):
        tool.tables()


def test_the_table_of_reserved_keys_is_the_one_that_is_enforced() -> None:
    page = (ROOT / "docs" / "admission.md").read_text(encoding="utf-8")
    rows = [
        f"| {row.resource} | {', '.join(f'`{key}`' for key in sorted(keys))} | {' and '.join(roles)} |"
        for row in RESERVED
        for roles, keys in sorted(_by_roles(row).items())
    ]
    assert "\n".join(rows) in page, "\n".join(rows)


def _by_roles(row: ReservedKeys) -> dict[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = {row.others: ["spinney.dev/*"]}
    for key, roles in row.writers.items():
        found.setdefault(roles, []).append(key)
    return found


def test_b9_the_chart_and_its_table_of_values_are_up_to_date() -> None:
    tool = tool_named("chart")
    stale = [path.name for path, text in tool.files().items() if path.read_text() != text]
    page = tool.PAGE.read_text()
    assert not stale and page == tool.page(page), f"{stale}: run python tools/chart.py --write"


def test_every_known_difference_of_the_contract_is_told() -> None:
    held = re.findall(r"\(\*held\*\)", (ROOT / "docs" / "embedded-api-server.md").read_text())
    differences = re.search(r"DIFFERENCES = \{(.*?)^\}", (ROOT / "tests/contract/conftest.py").read_text(), re.S | re.M)
    assert differences is not None
    assert len(held) == differences[1].count("[embedded")


def test_c9_the_guide_for_administrators_knows_all_domains_reasons_and_names() -> None:
    guide = (ROOT / "docs" / "topologies.md").read_text()
    reasons = re.findall(r'"((?:AllC|C|TopologyA)\w+)"', inspect.getsource(topology_resolution))
    assert len(reasons) == 4
    names = (
        DEFAULT_TOPOLOGY,
        FINALIZER_CLUSTERTOPOLOGY,
        MANAGED_BY_OPERATOR,
        topology_resolution.TOPOLOGY_LEVELS_UNAVAILABLE,
    )
    fields = [field.encode_name for field in msgspec.structs.fields(LevelStatus)]
    assert not [word for word in (*DOMAINS, *reasons, *names, *fields) if word not in guide]


def anchors(page: Path) -> set[str]:
    """The headings of a page as links spell them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(_CODE.sub("", page.read_text())):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_is_named_exists(page: Path) -> None:
    for file, name in _NAMED.findall(page.read_text()):
        assert (ROOT / file).exists(), file
        assert not name or f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"


@pytest.mark.parametrize("letter", COUNTS)
def test_every_requirement_has_a_row(letter: str) -> None:
    rows = re.findall(rf"^\| {letter}(\d+) \|", REQUIREMENTS.read_text(), re.M)
    assert [int(row) for row in rows] == list(range(1, COUNTS[letter] + 1))


def test_every_sample_that_names_a_requirement_is_in_the_ledger() -> None:
    named = set(re.findall(r"- name: ([A-Z]\d+) ", (ROOT / "tests/golden/crd_samples.yaml").read_text()))
    told = set(re.findall(r"samples? ([A-Z]\d+)", REQUIREMENTS.read_text()))
    assert named == told


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_knows_the_machine_it_was_written_on(page: Path) -> None:
    assert not re.search(r"/root/|/work/|/tmp/", page.read_text())
