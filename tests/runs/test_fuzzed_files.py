"""A little of what `scripts/reliability/fuzz.py` does at length, at every commit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts.reliability.fuzz_child import Target, outcome
from scripts.reliability.fuzz_mutations import mutated
from scripts.reliability.fuzz_targets import targets


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> list[Target]:
    return targets(tmp_path_factory.mktemp("fuzzed"))


@settings(max_examples=150, deadline=None)
@given(rng=st.randoms(use_true_random=False), which=st.integers(0, 14))
@pytest.mark.filterwarnings("ignore")
def test_broken_files_are_good_or_refused(readers: list[Target], rng: object, which: int) -> None:
    assert len(readers) >= 15  # one more where the packages of MCAP are
    target = readers[which]
    content = mutated(target.good, rng)  # type: ignore[arg-type]
    try:
        found = outcome(target, content)
    finally:
        target.write(target.good)
    assert found in ("good", "refused")
    assert not (target.is_sealed and found == "good" and content != target.good)
