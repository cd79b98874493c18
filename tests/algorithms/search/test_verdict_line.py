"""`nopg.learn` ends with its verdict, in one line, and never loses a policy over it."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from nopg import DataError
from nopg.algorithms.search.learn import _sign_off
from tests.report.policies import slider


def test_the_verdict_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    policy = slider()
    _sign_off(policy, progress=True)
    said = capsys.readouterr().out
    assert said == f"{policy.verdict()}\n"
    assert said.count("\n") == 1


@pytest.mark.parametrize("question", ["check", "verdict"])
@pytest.mark.parametrize("error", [DataError("No rows."), KeyboardInterrupt()])
def test_what_goes_wrong_costs_only_the_line(
    capsys: pytest.CaptureFixture[str], error: BaseException, question: str
) -> None:
    class Failing:
        def check(self) -> SimpleNamespace:
            self._answer("check")
            return SimpleNamespace(ok=True)

        def verdict(self) -> str:
            return self._answer("verdict")

        def _answer(self, asked: str) -> str:
            if asked == question:
                raise error
            return "fine"

    _sign_off(Failing(), progress=True)  # type: ignore[arg-type]
    why = str(error) or "KeyboardInterrupt"
    assert capsys.readouterr().out.startswith(f"There is no verdict ({why})")


def test_models_that_fail_on_rows_not_seen_are_named(caplog: pytest.LogCaptureFixture) -> None:
    class Guessing:
        def __init__(self, reason: str) -> None:
            self.replay = SimpleNamespace(ok=not reason, reason=reason)

        def check(self) -> SimpleNamespace:
            return self.replay

    with caplog.at_level(logging.WARNING):
        _sign_off(Guessing(""), progress=False)  # type: ignore[arg-type]
        assert not caplog.records
        _sign_off(Guessing("Most in speed."), progress=False)  # type: ignore[arg-type]
    (said,) = caplog.records
    assert said.getMessage() == (
        "The learned models do not predict rows that they have not seen. Most in speed."
    )
