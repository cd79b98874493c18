"""What is said of data and training stands on the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nopg.fitted.history import History, Update
from nopg.report.evidence import Evidence
from nopg.report.fragments import note_list
from nopg.report.page import report_page
from nopg.report.text import of_training
from tests.report.policies import evidence_of


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return evidence_of("pendulum")


@pytest.fixture(scope="module")
def ending() -> Evidence:
    return evidence_of("corridor")


def update(step: int, objective: float) -> Update:
    return Update(
        step=step,
        objective=objective,
        certificate=0.0,
        gradient_norm=1.0,
        learning_rate=0.01,
        matvecs=1,
        fallbacks=0,
        seconds=0.1 * step,
    )


def with_history(evidence: Evidence, curve: Any, stopped: str = "finished") -> Evidence:
    updates = [update(k, float(j)) for k, j in enumerate(curve, start=1)]
    return replace(evidence, history=History(updates, stopped))


RISE = 1.0 - np.exp(-np.arange(100) / 10.0)


def test_interrupted_histories(evidence: Evidence) -> None:
    assert "interrupted" in of_training(with_history(evidence, RISE, "interrupted"))
    assert "interrupted" not in of_training(with_history(evidence, RISE))


def test_what_describe_says_of_the_data_is_on_the_page(ending: Evidence) -> None:
    page = report_page(ending)
    assert ending.description.findings
    for found in ending.description.findings:
        assert f'data-name="{found.name}"' in page
    assert f"verdict ({len(ending.description.findings)})" in page


def test_warnings_come_first_and_are_escaped(ending: Evidence) -> None:
    found = ending.description.findings
    grave = [note.level == "warning" for note in found]
    assert grave == sorted(grave, reverse=True)
    listed = note_list([replace(found[0], what="<b>bold</b>")])
    assert "&lt;b&gt;bold&lt;/b&gt;" in listed
