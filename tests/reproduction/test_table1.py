"""Table 1, cell by cell."""

import pytest
from reproduction.experiment import Plan
from reproduction.figures.table1_applicability import EXPERIMENT, PAPER

SAYS = {
    ("PWIS", "human-demonstration"): "must know the density of the policy",
    ("PWIS", "unstructured"): "reweights whole trajectories and needs `episodes`",
    ("PWIS", "deterministic-policy"): "needs a stochastic policy",
}
CELLS = EXPERIMENT.trials(Plan())


def test_every_cell_is_tried() -> None:
    assert {(trial.label, trial.task) for trial in CELLS} == set(PAPER)


@pytest.mark.parametrize("trial", CELLS, ids=lambda t: f"{t.method}-{t.task}")
@pytest.mark.filterwarnings("ignore::nopg.NopgWarning")
def test_cell_is_as_printed(trial) -> None:  # type: ignore[no-untyped-def]
    cell = (trial.label, trial.task)
    result = EXPERIMENT.run(trial)
    assert result["applies"] == PAPER[cell]
    assert SAYS.get(cell, "the policy moved") in result["says"]
