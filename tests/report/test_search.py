"""The page of a policy that `nopg.learn` found says how, and what its models think."""

import pytest

from nopg.algorithms.search.refinement import ModelEstimate
from nopg.fitted.search_result import PLANS, Candidate, Search, Way
from nopg.report import Run
from nopg.report.findings_search import search_findings
from nopg.report.fragments import MINUS
from nopg.report.page import report_page
from tests.report.runs import pendulum


def searched(uncertainty: float) -> Search:
    tried = [
        Candidate(Way("climbed"), ModelEstimate(-60.0, 0.5)),
        Candidate(
            PLANS[1], ModelEstimate(-50.0, 0.5), ModelEstimate(-40.0, uncertainty)
        ),
    ]
    return Search(tried, 1)


def levels(uncertainty: float, objective: float) -> dict[str, str]:
    return {r.name: r.level for r in search_findings(searched(uncertainty), objective)}


def test_doubt_decides_what_is_said() -> None:
    assert levels(0.1, -41.0) == {"models_know": "good"}
    assert levels(0.5, -41.0) == {"models_guess": "warning"}
    assert levels(0.8, -41.0) == {"models_guess": "serious"}


@pytest.mark.parametrize("objective", [-80.0, 3.0])
def test_kernels_that_differ_are_noted(objective: float) -> None:
    assert levels(0.1, objective)["kernels_differ"] == "note"


def test_the_page_has_the_table_and_no_curve() -> None:
    model = pendulum().model
    model.search = searched(0.125)
    try:
        page = report_page(Run.of(model, "found"))
    finally:
        model.search = None
    assert '<section id="search">' in page
    assert '<section id="learning" hidden>' in page
    values = f"<td>{MINUS}50</td><td>{MINUS}40</td><td>0.12</td>"
    row = f"<td>planned, near-sighted</td>{values}"
    assert row + "<td>kept</td>" in page
    assert "Return J by the models" in page
    assert ", by the data" not in page  # the kernels' interval is not to be shown
    assert "no history" not in page


def test_other_pages_do_not_show_it() -> None:
    page = report_page(pendulum())
    assert '<section id="search" hidden>' in page
    assert "Return J by the models" not in page
