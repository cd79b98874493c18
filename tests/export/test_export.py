"""Exports act as the library does, without it, or are not there."""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nopg
from nopg.cli.swing_up import BOTTOM
from nopg.errors import ConfigError, NopgError
from nopg.export import export_policy, numpy_reader
from nopg.export.verify import difference, onnx_runner, trial_states
from nopg.policies.families import DeterministicPolicy
from tests.delayed_system import delayed_data
from tests.runs.tiny import GIVEN, SMALL, discrete_data

FORMATS = ("onnx", "numpy")


class Saturating(nn.Module):
    """Somebody's own network, with what the numpy format does not hold."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 4)
        self.outer = nn.Linear(4, 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.outer(torch.tanh(self.inner(states)))
        return found * 5.0


@functools.cache
def fitted(kind: str) -> nopg.FittedPolicy:
    data: nopg.Dataset = SMALL
    settings: dict[str, Any] = {"bandwidths": GIVEN, "hidden": (6, 5)}
    if kind == "discrete":
        data, settings = discrete_data(), {"policy": "discrete", "hidden": (6,)}
    elif kind == "custom":
        settings["policy"] = Saturating()
    elif kind == "linear":  # leaves the action box: the limits must be in the file
        settings["policy"] = nopg.linear_policy([[3.0, -2.0, 0.5]])
    elif kind == "linear with noise":
        settings["policy"] = nopg.linear_policy([[3.0, -2.0, 0.5]], std=[0.3])
    elif kind == "single precision":
        settings |= {"dtype": "float32"}
    else:
        settings |= {"policy": kind, "policy_samples": 2}
    model = nopg.NOPG(**settings)
    return model.fit(data, [BOTTOM], n_updates=2, progress=False)


KINDS = (
    *("deterministic", "stochastic", "discrete", "linear", "linear with noise"),
    *("custom", "single precision"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_in_every_format(kind: str, tmp_path: Path) -> None:
    policy = fitted(kind)
    bound = 1e-5 if kind == "single precision" else 1e-12
    for format in FORMATS:
        path = tmp_path / f"policy.{format}"
        if (kind, format) == ("custom", "numpy"):
            with pytest.raises(ConfigError, match="export it as onnx"):
                export_policy(policy, path, format)
            assert not path.exists()
            continue
        done = export_policy(policy, path, format)
        assert done.n_states == 10_000
        assert done.difference <= bound
        assert str(Path(__file__).parents[2]).encode() not in path.read_bytes()
    _require_second_output(policy, tmp_path, bound)


def _require_second_output(policy: nopg.FittedPolicy, folder: Path, bound: float) -> None:
    """Spread and probabilities too, against the policy itself."""
    import onnxruntime

    states = trial_states(policy, 50).astype(policy.settings["dtype"])
    values = [v.detach().numpy() for v in policy.policy.outputs(torch.tensor(states))]
    session = onnxruntime.InferenceSession(folder / "policy.onnx")
    found = session.run(None, {"observation": states})
    names = [output.name for output in session.get_outputs()]
    assert names[0] == "action"
    if len(names) == 1:
        assert isinstance(policy.policy, DeterministicPolicy)
        return
    assert names[1] in ("std", "probabilities")
    np.testing.assert_allclose(found[1], values[-1], rtol=0, atol=bound)


def test_the_numpy_file_runs_without_torch_or_nopg(tmp_path: Path) -> None:
    for kind in ("deterministic", "discrete"):
        policy = fitted(kind)
        done = export_policy(policy, tmp_path / f"{kind}.npz")
        assert done.reader is not None
        program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from read_policy import NumpyPolicy
policy = NumpyPolicy({str(done.path)!r})
print(policy({list(BOTTOM)}).tolist())
print(policy([{list(BOTTOM)}] * 3).shape)
print(sorted({{"torch", "nopg"}} & set(sys.modules)))
"""
        told = subprocess.run(
            [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        expected = policy.predict(BOTTOM)[0]
        np.testing.assert_allclose(eval(told[0]), expected, atol=1e-12)
        assert told[1] == str((3, *expected.shape))
        assert told[2] == "[]"


def test_a_program_of_ones_own_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "read_policy.py").write_text("print('mine')")
    policy = fitted("deterministic")
    with pytest.raises(ConfigError, match="another file has its name"):
        export_policy(policy, tmp_path / "policy.npz")
    assert [file.name for file in tmp_path.iterdir()] == ["read_policy.py"]
    (tmp_path / "read_policy.py").unlink()
    for _ in range(2):
        export_policy(policy, tmp_path / "policy.npz")


def test_the_reader_is_short() -> None:
    lines = inspect.getsource(numpy_reader.NumpyPolicy).splitlines()
    code = [x for x in lines if x.strip() and not x.strip().startswith(('"""', "#"))]
    assert len(code) <= 21  # the class line and twenty more
    page = Path(__file__).parents[2] / "docs" / "runs.md"
    assert inspect.getsource(numpy_reader) in page.read_text(encoding="utf-8")


def test_the_numpy_reader_refuses_states_of_another_width(tmp_path: Path) -> None:
    policy = numpy_reader.NumpyPolicy(
        export_policy(fitted("deterministic"), tmp_path / "p.npz").path
    )
    for state in ([0.5], [[0.5]] * 4, [0.5] * 2, [0.5] * 4):
        with pytest.raises(ValueError, match="a state has 3 numbers"):
            policy(state)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="each finite"):
        policy([1.7e308] * 3)  # finite, but what follows from it is not
    for thing in (None, "hot", [[1.0], [2.0, 3.0]], [10**400] * 3, object()):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            policy(thing)


def test_limits_are_inside(tmp_path: Path) -> None:
    policy = fitted("linear")
    states = trial_states(policy, 1000)
    raw = policy.policy(torch.tensor(states)).detach().numpy()
    assert np.abs(raw).max() > 2.5  # the box is [-2, 2]
    read = numpy_reader.NumpyPolicy(export_policy(policy, tmp_path / "p.npz").path)
    assert np.abs(read(states)).max() == 2.0


def test_an_export_that_differs_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = fitted("deterministic")
    export_policy(policy, tmp_path / "p.npz")
    good = (tmp_path / "p.npz").read_bytes()

    right = numpy_reader.NumpyPolicy.__call__

    def wrong(policy: Any, states: Any) -> Any:
        return right(policy, states) + 1e-5

    monkeypatch.setattr(numpy_reader.NumpyPolicy, "__call__", wrong)
    with pytest.raises(NopgError, match=r"differs by 1\.0e-05"):
        export_policy(policy, tmp_path / "p.npz")
    assert (tmp_path / "p.npz").read_bytes() == good
    assert not list(tmp_path.glob(".*"))


def test_trials_reach_inside_and_far_outside_the_data() -> None:
    policy = fitted("deterministic")
    states = trial_states(policy, 10_000)
    low, high = SMALL.observations.min(axis=0), SMALL.observations.max(axis=0)
    is_outside = ((states < low) | (states > high)).any(axis=1)
    assert 0.2 < is_outside.mean() < 0.3
    assert np.ptp(states, axis=0) == pytest.approx(10 * (high - low), rel=0.05)


def test_a_policy_without_data_is_tried_where_it_was_trained(tmp_path: Path) -> None:
    policy = fitted("deterministic")
    policy.save(tmp_path / "m.nopg", include_data=False)
    again = nopg.load(tmp_path / "m.nopg")
    done = export_policy(again, tmp_path / "p.onnx")
    run = onnx_runner(done.path.read_bytes())
    assert difference(policy, run, trial_states(policy)) <= 1e-12


def test_a_policy_that_is_no_graph_is_refused_in_one_sentence(tmp_path: Path) -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.layer(states)
            return found if bool((states > 0).any()) else -found

    model = nopg.NOPG(Branching(), bandwidths=GIVEN)
    policy = model.fit(SMALL, [BOTTOM], n_updates=1, progress=False)
    with pytest.raises(ConfigError, match="branches on values") as caught:
        export_policy(policy, tmp_path / "p.onnx")
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="must be one of onnx, numpy, c, js"):
        export_policy(policy, tmp_path / "p.tflite")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_discrete", [False, True])
def test_memory_goes_in_and_out_of_every_format(tmp_path: Path, is_discrete: bool) -> None:
    """An episode in the library and in each file; the state is handed on by hand."""
    import onnxruntime

    data = delayed_data(is_discrete=is_discrete).with_history(observations=1, actions=2)
    kind = "discrete" if is_discrete else "stochastic"
    policy = nopg.NOPG(policy=kind, gamma=0.9, hidden=(8,)).fit(data, n_updates=1, progress=False)
    for suffix in (".npz", ".onnx"):
        assert export_policy(policy, tmp_path / f"p{suffix}").difference <= 1e-9
    session = onnxruntime.InferenceSession(tmp_path / "p.onnx")
    read = numpy_reader.NumpyMemoryPolicy(tmp_path / "p.npz")
    width = 1 + 2 * (3 if is_discrete else 1)
    state, in_numpy, in_onnx = None, None, np.full((2, width), np.nan)
    names = [one.name for one in session.get_inputs()]
    assert names == ["observation", "state", "episode_start"]
    for t, seen in enumerate(np.random.default_rng(0).normal(size=(5, 2, 1))):
        start = np.array([t == 0, t in (0, 3)])
        expected, state = policy.predict(seen, state, start)
        from_numpy, in_numpy = read.step(seen, in_numpy, start)
        given = dict(zip(names, (seen, in_onnx, start), strict=True))
        from_onnx, in_onnx = session.run(["action", "next_state"], given)
        for action, past in ((from_numpy, in_numpy), (from_onnx, in_onnx)):
            np.testing.assert_allclose(action, expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(past, state, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["linear", "discrete"])
def test_numbers_that_are_not_finite_get_no_action(kind: str, tmp_path: Path) -> None:
    import onnxruntime

    policy = fitted(kind)
    width = len(policy.observation_names or ())
    bad = np.zeros((3, width))
    bad[0, 0], bad[1, 1] = np.nan, np.inf
    session = onnxruntime.InferenceSession(export_policy(policy, tmp_path / "p.onnx").path)
    found = session.run(["action"], {"observation": bad})[0]
    if kind == "discrete":
        assert found[:2].tolist() == [-1, -1]
        assert found[2] >= 0
    else:
        assert np.isnan(found[:2]).all()
        assert np.isfinite(found[2]).all()
    reader = numpy_reader.NumpyPolicy(export_policy(policy, tmp_path / "p.npz").path)
    with pytest.raises(ValueError, match="each finite"):
        reader(bad)
