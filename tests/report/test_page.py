"""The page as a text: its numbers, its safety, its weight."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nopg import NopgError
from nopg.report import Run, write_report
from nopg.report.page import report_page
from nopg.report.payload import json_in_html
from nopg.report.read import fingerprint
from tests.report.runs import HOSTILE, corridor, hostile, pendulum

RUNS = {"pendulum": pendulum, "corridor": corridor, "hostile": hostile}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: report_page(make()) for name, make in RUNS.items()}


def numbers(page: str) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json" id="numbers">(.*?)</script>', page
    )
    assert found
    return dict(json.loads(found[1]))


def unpacked(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), "<f4")


def test_the_map_holds_the_models_own_values(pages: dict[str, str]) -> None:
    drawn, model = numbers(pages["pendulum"]), pendulum().model
    (plane,) = drawn["planes"]
    angle, speed = drawn["axes"]
    xs = np.linspace(angle["low"], angle["high"], plane["nx"])
    ys = np.linspace(speed["low"], speed["high"], plane["ny"])
    theta, speeds = (grid.ravel() for grid in np.meshgrid(xs, ys))
    states = np.column_stack([np.cos(theta), np.sin(theta), speeds])
    value = model.value(states)
    error = 1e-5 * np.ptp(value)
    np.testing.assert_allclose(unpacked(plane["value"]), value, rtol=0, atol=error)
    actions = model.predict(states)[0][:, 0]
    np.testing.assert_allclose(unpacked(plane["actions"][0]), actions, atol=1e-6)


def test_samples_and_curve_are_the_runs_own(pages: dict[str, str]) -> None:
    drawn, run = numbers(pages["corridor"]), corridor()
    np.testing.assert_allclose(
        unpacked(drawn["samples"]["at"][2]), run.data.observations[:, 2], rtol=1e-6
    )
    np.testing.assert_array_equal(
        unpacked(drawn["samples"]["action"][0]), run.data.actions
    )
    assert drawn["samples"]["row"] == list(range(160))
    assert drawn["samples"]["colour"] == "visits"  # the reward is the same everywhere
    assert drawn["curve"]["value"] == run.column("objective")
    assert drawn["curve"]["band"] == run.column("certificate")
    shares = drawn["support"]["distance"]["share"]
    assert sum(shares) == pytest.approx(1.0)


def test_the_headline_says_what_the_model_says(pages: dict[str, str]) -> None:
    page, run = pages["pendulum"], pendulum()
    objective = f"{float(run.model.objective()):.4g}".replace("-", "\N{MINUS SIGN}")
    assert f"<dd>{objective}<small>" in page
    assert "128 logged transitions" in page
    assert fingerprint(run.data) in page
    for name in run.model.config.flat():
        assert f"<dt>{name}</dt>" in page
    assert page.count("<tr>") > 8  # worst states and columns


class Tags(HTMLParser):
    """Collects tags with their attributes, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("name", RUNS)
def test_names_from_data_are_shown_and_not_run(
    pages: dict[str, str], name: str
) -> None:
    tags = Tags(pages[name]).found
    scripts = [attributes for tag, attributes in tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "numbers"}, {}]
    assert not {"img", "iframe", "object", "link", "base", "i"} & {t for t, _ in tags}
    assert not [
        a for _, a in tags if any(k.startswith("on") or k == "style" for k in a)
    ]


def test_hostile_names_are_all_there(pages: dict[str, str]) -> None:
    drawn = numbers(pages["hostile"])
    assert drawn["axes"][0]["name"] == HOSTILE
    assert drawn["action"]["names"][1] == "{{numbers}} '\u2028"
    assert drawn["curve"]["evaluations"][0]["name"] == "<i>score</i>, measured"
    assert "&lt;h1&gt;run&lt;/h1&gt;" in pages["hostile"]
    assert "&lt;b&gt;bold&lt;/b&gt;" in pages["hostile"]


@pytest.mark.parametrize("name", RUNS)
def test_the_page_fetches_nothing(pages: dict[str, str], name: str) -> None:
    page = pages[name]
    # The one address is the name of the SVG language, which nothing opens.
    addresses = set(re.findall(r"\b(?:https?|wss?|ftp|file):[^\s\"'<]*", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|\bimport\b\s*\(", page)
    assert "{{" not in page.replace("{{numbers}}", "")


def test_only_the_pages_own_script_and_style_are_allowed(
    pages: dict[str, str],
) -> None:
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


@pytest.mark.parametrize("name", RUNS)
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
    run = Run(hostile().model, "broken \ud800 name")
    path = write_report(run, tmp_path / "report.html")
    assert "<h1>broken ? name</h1>" in path.read_text(encoding="utf-8")
