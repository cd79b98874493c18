"""Bandwidth rules: the authors' figures, closed slopes, degenerate columns."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime

import nopg
from nopg.cli.swing_up import grid_dataset
from nopg.kernels import bandwidths
from nopg.kernels.bandwidths import _Regression, leave_one_out, select_bandwidths
from nopg.kernels.cross_validation import cross_validated_bandwidth, half_spacing
from nopg.threads import side_by_side


def transitions(s: Any, a: Any, r: Any, s_next: Any) -> nopg.Dataset:
    return nopg.Dataset(s, a, r, s_next, np.zeros(len(s), dtype=bool))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(10, (0.4057, 0.3703, 0.0972, 1.90)), (20, (0.3018, 0.2878, 0.0699, 1.44))],
)
def test_cross_validation_gives_the_authors_bandwidths(
    size: int, expected: tuple[float, ...]
) -> None:
    """The pendulum grid with the paper's factors, as their release computes them."""
    rule = nopg.CrossValidated(state_factor=1.0, action_factor=50.0)
    with pytest.warns(nopg.NopgWarning) as said:
        found = select_bandwidths(rule, grid_dataset(size, size), rng())
    np.testing.assert_allclose([*found.state, *found.action], expected, rtol=4e-3)
    remarks = " ".join(str(warning.message) for warning in said)
    assert "distinct values" in remarks
    assert "largest candidate" in remarks


@pytest.mark.filterwarnings("ignore:.* column")
def test_factors_may_differ_by_dimension() -> None:
    data = grid_dataset(10, 10)
    plain = nopg.CrossValidated().select(data, rng())
    factors = [10.0, 10.0, 1.0]  # as in the authors' release
    scaled = nopg.CrossValidated(factors, [7.0]).select(data, rng())
    np.testing.assert_allclose(scaled.state, np.multiply(factors, plain.state))
    np.testing.assert_allclose(scaled.action, 7.0 * np.array(plain.action))
    expected = np.multiply(factors, plain.next_state)
    np.testing.assert_allclose(scaled.next_state, expected)
    ahead = nopg.CrossValidated(factors, next_state_factor=2.0).select(data, rng())
    np.testing.assert_allclose(ahead.next_state, 2.0 * np.array(plain.next_state))
    with pytest.raises(nopg.ConfigError, match=r"factor, or 3, got 2"):
        nopg.CrossValidated((1.0, 2.0)).select(data, rng())


def test_next_state_bandwidths_may_be_an_array() -> None:
    given = nopg.Bandwidths([1.0, 2.0], [3.0], np.array([0.0, 0.5]))
    assert given.next_state == (0.0, 0.5)
    assert nopg.Bandwidths(np.array([1.0, 2.0]), [3.0]).next_state == (1.0, 2.0)


def test_half_spacing_is_that_of_repeated_values() -> None:
    grid = np.repeat(np.linspace(-8.0, 8.0, 9), 5)
    assert half_spacing(rng().permutation(grid)) == pytest.approx(1.0)
    # Rounding tells sin(x) and sin(pi - x) apart; they are one value.
    angles = np.linspace(-np.pi, np.pi, 7)
    assert half_spacing(np.sin(angles)) == pytest.approx(np.sin(np.pi / 3) / 2)
    assert half_spacing(rng().normal(size=50)) == 0.0  # nothing repeats
    assert half_spacing(np.full(9, 0.1)) == 0.0
    clipped = np.clip(rng().normal(size=400), -1.0, 1.0)
    assert half_spacing(clipped) < 0.01  # most of it is no grid


def test_floor_lifts_widths_of_a_grid_and_leaves_others() -> None:
    data = grid_dataset(15, 15)
    rule = nopg.CrossValidated(1.0, 50.0, half_spacing_floor=True)
    with pytest.warns(nopg.NopgWarning) as said_of_plain:
        plain = nopg.CrossValidated(1.0, 50.0).select(data, rng())
    with pytest.warns(nopg.NopgWarning) as said:
        lifted = rule.select(data, rng())
    assert lifted.state[:2] == plain.state[:2]  # wider than half a step already
    assert plain.state[2] < 0.1
    assert lifted.state[2] == pytest.approx(8.0 / 14)  # 15 velocities over 16
    assert lifted.action == pytest.approx((2.0,))  # torques of -2 and 2
    # What was lifted is no longer the smallest candidate.
    assert any("has only 15" in str(warning.message) for warning in said_of_plain)
    assert not any("has only" in str(warning.message) for warning in said)


def test_cross_validation_finds_the_width_of_a_normal_sample() -> None:
    h, remark = cross_validated_bandwidth(rng().normal(size=1000))
    assert remark is None
    assert 0.1 < h < 0.45  # Silverman: 1.06 n^-1/5 = 0.27


def test_leave_one_out_slope_matches_finite_differences() -> None:
    generator = torch.Generator().manual_seed(0)
    squares = torch.rand((3, 20, 30), dtype=torch.float64, generator=generator)
    hidden = torch.rand((20, 30), generator=generator) < 0.1
    y = torch.randn((20, 2), dtype=torch.float64, generator=generator)
    known = torch.randn((20, 30, 2), dtype=torch.float64, generator=generator)
    problem = _Regression(squares, hidden, y, known)
    point = np.array([-1.0, -0.5, 0.2])
    _, slope = problem.error_and_slope(point)
    expected = approx_fprime(point, lambda x: problem.error_and_slope(x)[0], 1e-7)
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("c", "has_own_lists"), [(32, False), (41, True), (7, True)])
def test_compiled_errors_and_slopes_are_those_of_torch(
    c: int, has_own_lists: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(c)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    squares, hidden = drawn(3, 20, c).square(), drawn(20, c) > 0.5
    hidden[4] = True  # sees nothing
    known = drawn(20 if has_own_lists else 1, c, 2)
    given = (squares, hidden, drawn(20, 2), known)
    log_h = np.array([-0.5, 0.2, 0.7])
    compiled = _Regression(*given)
    if compiled.library is None:
        pytest.skip("there is no C compiler")
    error, slope = compiled.error_and_slope(log_h)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with side_by_side():
            again = compiled.error_and_slope(log_h)
    finally:
        torch.set_num_threads(before)
    assert again[0] == error
    assert (again[1] == slope).all()
    monkeypatch.setattr(bandwidths, "compiled_for", lambda *_: None)
    expected, by_torch = _Regression(*given).error_and_slope(log_h)
    near = 1e-5 if dtype == torch.float32 else 1e-12
    assert error == pytest.approx(expected, rel=near)
    assert slope == pytest.approx(by_torch, rel=10 * near, abs=near)


def test_leave_one_out_ignores_what_does_not_matter() -> None:
    """Y depends on the first column alone: it gets the narrow bandwidth."""
    x = torch.tensor(rng().normal(size=(400, 2)))
    y = torch.sin(3 * x[:, :1])
    h, error = leave_one_out(x, y, rng(), torch.tensor([20.0, 20.0]))
    assert error < 0.05
    assert h[0] < 0.3
    assert h[1] > 2.0


def test_auto_does_not_collapse_on_a_grid() -> None:
    """Plain leave-one-out picks a fifth of the step: the chain stands still."""
    data = grid_dataset(15, 15)
    found = select_bandwidths("auto", data, rng())
    assert 0.3 < found.state[2] < 1.2  # the velocity step is 1.14
    assert 1.0 < found.action[0] <= 2.0 + 1e-9


def test_constant_columns_are_ignored_and_said() -> None:
    generator = rng()
    states = np.column_stack([generator.normal(size=60), np.full(60, 3.0)])
    actions = generator.uniform(size=(60, 1))
    data = transitions(states, actions, generator.normal(size=60), states)
    for rule in ("auto", nopg.CrossValidated()):
        with pytest.warns(nopg.NopgWarning, match="state column 1 is constant"):
            found = select_bandwidths(rule, data, rng())
        assert found.state[1] == np.inf
        assert np.isfinite(found.state[0])


def test_duplicated_rows_do_not_shrink_bandwidths_to_nothing() -> None:
    """A copy of a row predicts it perfectly; it is left out with it."""
    generator = rng()
    x, a = generator.normal(size=(150, 1)), generator.uniform(-1, 1, (150, 1))
    rows = (x, a, x[:, 0] ** 2, 0.9 * x + a)
    once = select_bandwidths("auto", transitions(*rows), rng())
    twice = transitions(*[np.concatenate([part, part]) for part in rows])
    again = select_bandwidths("auto", twice, rng())
    assert 0.5 < again.state[0] / once.state[0] < 2.0


def test_discrete_actions_get_a_label_kernel() -> None:
    generator = rng()
    states = generator.normal(size=(90, 2))
    labels = generator.integers(0, 3, 90)
    data = transitions(states, labels, states[:, 0], states)
    found = select_bandwidths("auto", data, rng())
    assert len(found.state) == 2
    assert 0 < found.action[0] < 0.5


def test_actions_that_never_differ_are_refused() -> None:
    states = rng().normal(size=(20, 2))
    data = transitions(states, np.ones((20, 1)), states[:, 0], states)
    with pytest.raises(nopg.DataError, match="nothing to choose"):
        select_bandwidths("auto", data, rng())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: nopg.Bandwidths([0.0], [1.0]), "must be positive"),
        (lambda: nopg.Bandwidths([1.0], [float("nan")]), "must be positive"),
        (lambda: nopg.Bandwidths(cast("Any", "x"), [1.0]), "list of numbers"),
        (lambda: nopg.CrossValidated(state_factor=0), "must be positive"),
        (lambda: nopg.CrossValidated(action_factor=[1.0, -1.0]), "must be positive"),
        (lambda: nopg.CrossValidated(next_state_factor=[]), "must be positive"),
        (lambda: nopg.CrossValidated(cast("Any", "x")), "factors must be a list"),
    ],
)
def test_bad_bandwidths_are_refused(make: object, sentence: str) -> None:
    with pytest.raises(nopg.ConfigError, match=sentence):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("rule", ["silverman", 3, None])
def test_unknown_rules_are_refused(rule: object) -> None:
    with pytest.raises(nopg.ConfigError, match="auto"):
        select_bandwidths(rule, grid_dataset(5, 5), rng())


def test_widths_must_match_the_data() -> None:
    with pytest.raises(nopg.ConfigError, match="3 state"):
        select_bandwidths(nopg.Bandwidths([1.0], [1.0]), grid_dataset(5, 5), rng())


def test_a_rule_of_ones_own_is_asked_and_checked() -> None:
    class Wide:
        def select(self, data: Any, generator: np.random.Generator) -> nopg.Bandwidths:
            return nopg.Bandwidths(data.observations.std(axis=0), [2.0] * self.d_a)

        d_a = 1

    rule, data = Wide(), grid_dataset(5, 5)
    found = select_bandwidths(rule, data, rng())
    np.testing.assert_array_equal(found.state, data.observations.std(axis=0))
    rule.d_a = 2
    with pytest.raises(nopg.ConfigError, match="1 action"):
        select_bandwidths(rule, data, rng())
