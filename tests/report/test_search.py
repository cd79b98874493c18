"""The page of a policy that `nopg.learn` found says how."""

from __future__ import annotations

from nopg.fitted.history import PLANNING, Candidate, CandidateMethod, ModelEstimate, SearchResult
from nopg.report.fragments import MINUS, search_table
from nopg.report.page import report_page
from tests.report.policies import evidence_of


def searched(uncertainty: float) -> SearchResult:
    planned = CandidateMethod(PLANNING, short_horizon=True)
    tried = [
        Candidate(CandidateMethod("gradient ascent"), ModelEstimate(-60.0, 0.5)),
        Candidate(planned, ModelEstimate(-50.0, 0.5), ModelEstimate(-40.0, uncertainty)),
    ]
    return SearchResult(tried, 1)


def test_the_table_names_every_candidate_and_marks_the_one_kept() -> None:
    table = search_table(searched(0.125))
    values = f"<td>{MINUS}50</td><td>{MINUS}40</td><td>0.12</td><td>kept</td>"
    assert f"<td>fitted value iteration, short horizon</td>{values}" in table
    assert table.count("kept") == 1


def test_the_page_has_the_table_and_no_curve() -> None:
    page = report_page(evidence_of("slider"))
    assert '<section id="search">' in page
    assert '<section id="learning" hidden>' in page


def test_other_pages_have_no_table() -> None:
    page = report_page(evidence_of("pendulum"))
    assert '<section id="search" hidden>' in page
    assert '<section id="learning">' in page
