"""The page as a text: its numbers, its safety, its weight."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nopg
from nopg import NopgError, NotFittedError
from nopg.data.io.metadata import fingerprint
from nopg.report import write_report
from nopg.report.page import report_page
from nopg.report.payload import json_in_html
from tests.report.policies import (
    HOSTILE,
    POLICIES,
    corridor,
    evidence_of,
    hostile,
    pendulum,
    slider,
)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    titles = {"hostile": "<h1>run</h1>"}
    return {n: report_page(evidence_of(n), titles.get(n, n)) for n in POLICIES}


def numbers(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', page)
    assert found
    return dict(json.loads(found[1]))


def unpacked(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), "<f4")


def states_of_the_plane(drawn: dict[str, Any]) -> Any:
    (plane,) = drawn["planes"]
    across, up = drawn["axes"]
    xs = np.linspace(across["low"], across["high"], plane["nx"])
    ys = np.linspace(up["low"], up["high"], plane["ny"])
    return [grid.ravel() for grid in np.meshgrid(xs, ys)]


def test_the_map_holds_the_policys_own_values(pages: dict[str, str]) -> None:
    drawn, policy = numbers(pages["pendulum"]), pendulum()
    (plane,) = drawn["planes"]
    theta, speeds = states_of_the_plane(drawn)
    states = np.column_stack([np.cos(theta), np.sin(theta), speeds])
    value = policy.value(states)
    error = 1e-5 * np.ptp(value)
    np.testing.assert_allclose(unpacked(plane["value"]), value, rtol=0, atol=error)
    actions = policy.predict(states)[0][:, 0]
    np.testing.assert_allclose(unpacked(plane["actions"][0]), actions, atol=1e-6)


def test_after_learn_the_map_holds_what_the_models_expect(pages: dict[str, str]) -> None:
    """Not what the kernels say, which did not choose the policy."""
    drawn, policy = numbers(pages["slider"]), slider()
    value = unpacked(drawn["planes"][0]["value"])
    states = np.column_stack(states_of_the_plane(drawn))
    corners = [0, drawn["planes"][0]["nx"] - 1, len(states) - 1]
    by_models = policy.value(states[corners], by="model")
    np.testing.assert_allclose(value[corners], by_models, rtol=1e-5)
    assert np.abs(by_models - policy.value(states[corners], by="kernel")).min() > 1e-3


def test_samples_and_curve_are_the_policys_own(pages: dict[str, str]) -> None:
    drawn, policy = numbers(pages["corridor"]), corridor()
    data, history = policy.data, policy.history
    assert data is not None
    assert history is not None
    np.testing.assert_allclose(
        unpacked(drawn["samples"]["at"][2]), data.observations[:, 2], rtol=1e-6
    )
    np.testing.assert_array_equal(unpacked(drawn["samples"]["action"][0]), data.actions)
    assert drawn["samples"]["row"] == list(range(160))
    assert drawn["samples"]["colour"] == "action"  # the reward is the same everywhere
    assert drawn["curve"]["value"] == history["objective"]
    assert drawn["curve"]["band"] == history["certificate"]
    assert drawn["logged"]["k"] == 10  # every other of twenty episodes
    first = unpacked(drawn["logged"]["at"][0])[:8]
    np.testing.assert_allclose(first, data.observations[:8, 0], rtol=1e-6)


def shown(value: float) -> str:
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


@pytest.mark.parametrize(
    ("name", "by"), [("pendulum", "kernel regression"), ("slider", "learned models")]
)
def test_there_is_one_return_and_it_is_said_who_predicts_it(
    pages: dict[str, str], name: str, by: str
) -> None:
    page, estimate = pages[name], POLICIES[name]().expected_return()
    low, high = shown(estimate.low), shown(estimate.high)
    interval = f"expected return, 95 times of 100 between {low} and {high}"
    assert f"{shown(estimate.value)} <small>{interval}</small>" in page
    assert re.search(rf"predicted from the data, by {by}", page)
    other = "model" if estimate.by == "kernel" else "kernel"
    contrary = POLICIES[name]().expected_return(None, by=other).value
    assert shown(contrary) != shown(estimate.value)
    assert f">{shown(contrary)}<" not in page


@pytest.mark.parametrize("name", POLICIES)
def test_the_page_begins_with_the_verdict_and_ends_with_the_internals(
    pages: dict[str, str], name: str
) -> None:
    page, evidence = pages[name], evidence_of(name)
    verdict = evidence.verdict
    order = [
        f'class="verdict {verdict.level}"',
        html.escape(verdict.reason),
        html.escape(verdict.advice),
        'id="returns"',
        'id="response"',
        'id="replay"',
        'id="next"',
        'id="search"',
        'id="appendix"',
        '<details id="states">',
    ]
    places = [page.index(part) for part in order]
    assert places == sorted(places)
    assert page.count("<details id=") == page.count("<details") == 4  # all folded


def test_comparison_replay_and_suggestion_are_the_policys_own(pages: dict[str, str]) -> None:
    page, evidence = pages["slider"], evidence_of("slider")
    found, replay = evidence.grounds.comparison, evidence.grounds.replay
    assert found.against == "the mean action"
    assert f"<em>{shown(found.other)}</em>" in page
    for label, held in zip(replay.labels, replay.coverage, strict=True):
        assert re.search(rf"<td>{label}</td><td>\d+</td><td>{held.mean():.0%}<", page)
    table = page[page.index('id="next"') : page.index('id="search"')]
    assert table.count("<tr>") == 1 + len(evidence.suggestion)
    first = evidence.suggestion.states[0, 0]
    assert f"<td>{first:.3g}".replace("-", "\N{MINUS SIGN}") in table


def test_an_unknown_return_is_said_to_be_unknown() -> None:
    evidence = evidence_of("slider")
    grounds = evidence.grounds
    unknown = replace(
        evidence,
        grounds=replace(
            grounds,
            estimate=grounds.estimate.as_unknown("nothing was tried there."),
            comparison=replace(
                grounds.comparison, known=False, low=np.nan, high=np.nan, reason="why."
            ),
        ),
    )
    page = report_page(unknown)
    assert "<small>unknown: nothing was tried there.</small>" in page
    assert "nobody knows which earns more: why." in page
    assert "ranges" not in page.split("</style>")[1].split("<script")[0]


def test_data_settings_and_origin_are_named(tmp_path: Path) -> None:
    policy = pendulum()
    path = write_report(
        policy, tmp_path / "report.html", title="swing-up", origin={"host": "<lab>"}
    )
    page = path.read_text(encoding="utf-8")
    assert "<h1>swing-up</h1>" in page
    assert "128 logged transitions" in page
    assert policy.data is not None
    assert fingerprint(policy.data) in page
    for name in policy.settings:
        assert f"<dt>{name}</dt>" in page
    assert "<code>&lt;lab&gt;</code>" in page
    assert page.count("<tr>") > 8  # steps to record and columns


def test_a_policy_without_a_history_has_no_curve(tmp_path: Path) -> None:
    pendulum().save(tmp_path / "policy.nopg")
    policy = nopg.load(tmp_path / "policy.nopg")
    assert policy.history is None
    path = write_report(policy, tmp_path / "report.html")
    assert numbers(path.read_text(encoding="utf-8"))["curve"] is None


def test_a_policy_without_data_is_refused(tmp_path: Path) -> None:
    pendulum().save(tmp_path / "policy.nopg", include_data=False)
    policy = nopg.load(tmp_path / "policy.nopg")
    with pytest.raises(NotFittedError, match="include_data=True"):
        write_report(policy, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


class Tags(HTMLParser):
    """Collects tags with their attributes, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("name", POLICIES)
def test_names_from_data_are_shown_and_not_run(pages: dict[str, str], name: str) -> None:
    tags = Tags(pages[name]).found
    scripts = [attributes for tag, attributes in tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "numbers"}, {}]
    assert not {"img", "iframe", "object", "link", "base", "i"} & {t for t, _ in tags}
    assert not [a for _, a in tags if any(k.startswith("on") or k == "style" for k in a)]


def test_hostile_names_are_all_there(pages: dict[str, str]) -> None:
    drawn = numbers(pages["hostile"])
    assert drawn["axes"][0]["name"] == HOSTILE
    assert drawn["action"]["names"][1] == "{{numbers}} '\u2028"
    assert drawn["curve"]["evaluations"][0]["name"] == "<i>score</i>, measured"
    assert "&lt;h1&gt;run&lt;/h1&gt;" in pages["hostile"]
    assert "&lt;b&gt;bold&lt;/b&gt;" in pages["hostile"]


@pytest.mark.parametrize("name", POLICIES)
def test_the_page_fetches_nothing(pages: dict[str, str], name: str) -> None:
    page = pages[name]
    # The one address is the name of the SVG language, which nothing opens.
    addresses = set(re.findall(r"\b(?:https?|wss?|ftp|file):[^\s\"'<]*", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|\bimport\b\s*\(", page)
    assert "{{" not in page.replace("{{numbers}}", "")


def test_only_the_pages_own_script_and_style_are_allowed(pages: dict[str, str]) -> None:
    page = pages["hostile"]
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    for tag in ("script", "style"):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(text) == 1
        digest = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]


def test_json_cannot_end_its_element() -> None:
    nasty = {"</script>": ["<!--", "&amp;", float("inf"), float("nan"), "\u2028"]}
    text = json_in_html(nasty)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"</script>": ["<!--", "&amp;", None, None, "\u2028"]}


@pytest.mark.parametrize("name", POLICIES)
def test_pages_are_light(pages: dict[str, str], name: str) -> None:
    print(f"{name}: {len(pages[name]) / 1e6:.2f} MB")
    assert len(pages[name]) < 1_500_000


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = write_report(hostile(), tmp_path / "deep" / "report.html")
    assert path.read_text(encoding="utf-8").endswith("</html>\n")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    with pytest.raises(NopgError, match="writable"):
        write_report(hostile(), path / "report.html")


def test_half_a_character_in_a_name_does_no_harm(tmp_path: Path) -> None:
    path = write_report(hostile(), tmp_path / "report.html", title="broken \ud800 name")
    assert "<h1>broken ? name</h1>" in path.read_text(encoding="utf-8")
