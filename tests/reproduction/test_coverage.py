"""Tables of the coverage experiment on made-up results with known answers."""

from __future__ import annotations

from typing import Any

import pytest
from reproduction.figures.coverage_tables import area_under_curve, coverage_tables
from reproduction.results import Record
from reproduction.trial import Trial


def record(method: str, estimates: list[dict[str, Any]]) -> Record:
    trial = Trial(experiment="coverage", task="cart-pole", method=method, size=1, seed=0)
    return Record(trial, "code", "run", {"estimates": estimates})


def estimate(true: float, **more: Any) -> dict[str, Any]:
    ends = {"estimate": 1.0, "low": 0.0, "high": 2.0}
    about = {"policy": "15", "seconds": 1.0, "interval_seconds": 3.0}
    return {"true": true, **about, **ends, **more}


def test_area_under_curve_of_known_orders() -> None:
    assert area_under_curve([3.0, 4.0], [1.0, 2.0]) == 1.0
    assert area_under_curve([1.0], [1.0]) == 0.5
    assert area_under_curve([1.0, 4.0], [2.0, 3.0]) == 0.5


def test_coverage_width_and_errors() -> None:
    ours = [estimate(1.5), estimate(-1.0), estimate(2.0), estimate(1.0)]
    theirs = [{"true": 1.5, "estimate": 4.5, "seconds": 9.0}]
    table = coverage_tables([record("NOPG-D", ours), record("FQE", theirs)])
    row = table["coverage"][0]
    assert (row["policies"], row["kernel_held"]) == (4, "75%")
    assert (row["kernel_width"], row["kernel_cost"]) == (2.0, 3)
    assert row["kernel_error"] == pytest.approx((0.5 + 2.0 + 1.0 + 0.0) / 4, abs=0.01)
    assert row["fqe_error_beside_fqe"] == 3.0
    assert row["kernel_error_beside_fqe"] == 0.5
    assert table["coverage"][-1]["task"] == "all"


def test_coverage_of_models() -> None:
    hit = {"value": 1.25, "low": 1.0, "high": 2.0, "seconds": 0.5}
    miss = {"value": 1.0, "low": 0.5, "high": 1.5, "seconds": 1.5}
    found = [estimate(1.5, model=hit), estimate(1.75, model=miss)]
    row = coverage_tables([record("NOPG-D", found)])["coverage"][0]
    assert (row["model_held"], row["model_width"]) == ("50%", 1.0)
    assert (row["model_error"], row["model_seconds"]) == (0.5, 1.0)
    plain = coverage_tables([record("NOPG-D", [estimate(1.0)])])["coverage"][0]
    assert "model_held" not in plain


def test_policies_of_learn_have_rows_of_their_own() -> None:
    found = coverage_tables(
        [record("NOPG-D", [estimate(1.0)]), record("learn", [estimate(9.0), estimate(1.0)])]
    )
    rows = {row["task"]: row for row in found["coverage"]}
    assert (rows["all"]["policies"], rows["all"]["kernel_held"]) == (1, "100%")
    assert rows["cart-pole, learn"]["kernel_held"] == "50%"


def test_falls_and_support() -> None:
    sure = {"true": 0.0, "value": 0.05, "low": 0.0, "high": 0.1}
    unsure = {"true": 1.0, "value": 0.2, "low": 0.0, "high": 1.0}
    scores = {"distance": [0.0] * 9 + [5.0], "mass": [1.0] * 10}
    bad = {"failed": True, **scores, "effective": [9.0] * 9 + [1.0]}
    bad["model_value"] = [-9.0] * 10
    good = {"failed": False, "distance": [1.0] * 10, "mass": [1.0] * 10}
    good["model_value"] = [-9.5] + [-1.0] * 9
    good["effective"] = [5.0] * 10
    found = [estimate(1.0, fall=sure, support=[bad, good]), estimate(1.0, fall=unsure)]
    table = coverage_tables([record("NOPG-D", found)])
    assert table["falls"]["definite"] == 1
    assert table["falls"]["definite_within_0.1"] == 1.0
    areas = table["support_auc"]["cart-pole"]
    assert areas["effective"] == {"paths": 1.0, "last_tenth": 1.0}
    assert areas["mass"] == {"paths": 0.5, "last_tenth": 0.5}
    assert areas["model_value"] == {"paths": 0.0, "last_tenth": 0.9}
