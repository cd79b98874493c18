"""`nopg.learn` ends with its verdict, in one line, and never loses a policy over it."""

from __future__ import annotations

import pytest

from nopg import DataError
from nopg.algorithms.search.learn import _say_verdict
from tests.report.policies import slider


def test_the_verdict_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    policy = slider()
    _say_verdict(policy)
    said = capsys.readouterr().out
    assert said == f"{policy.verdict()}\n"
    assert said.count("\n") == 1


@pytest.mark.parametrize("error", [DataError("No rows."), KeyboardInterrupt()])
def test_what_goes_wrong_costs_only_the_line(
    capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    class Failing:
        def verdict(self) -> None:
            raise error

    _say_verdict(Failing())  # type: ignore[arg-type]
    assert capsys.readouterr().out.startswith(f"There is no verdict ({error})")
