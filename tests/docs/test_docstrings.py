"""Examples in docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import functools
import warnings
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import nopg
import nopg.data
from tests.test_house import swinging

WITH_EXAMPLES = (
    *(nopg.Dataset, nopg.Dataset.load, nopg.NOPG, nopg.SafePolicy, nopg.learn),
    *(nopg.load, nopg.export_policy, nopg.data.from_table),
)


@functools.cache
def fitted() -> nopg.FittedPolicy:
    data = swinging(60)
    model = nopg.NOPG(hidden=(4,), search_start=False)
    return model.fit(data, data.observations[:1], n_updates=1, progress=False)


@pytest.mark.parametrize("found", WITH_EXAMPLES, ids=lambda f: str(f.__qualname__))
def test_an_example_runs(
    found: FunctionType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"nopg": nopg, "np": np, "Path": Path, "data": swinging(60)}
    names["policy"] = fitted()
    text = found.__doc__ or ""
    test = doctest.DocTestParser().get_doctest(text, names, "example", None, None)
    assert test.examples
    runner = doctest.DocTestRunner(verbose=False)
    with warnings.catch_warnings(action="ignore", category=nopg.NopgWarning):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
