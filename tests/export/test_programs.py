"""The C header and the JavaScript file act as the library does, or are not there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nopg
from nopg.cli.swing_up import BOTTOM
from nopg.errors import ConfigError, NopgError
from nopg.export import export_policy
from nopg.export.program_formats import program_name
from nopg.export.verify import ProgramRunner
from tests.delayed_system import delayed_data
from tests.export.programs import printed_by
from tests.export.test_export import fitted
from tests.runs.tiny import SMALL

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js")
KINDS = ("deterministic", "stochastic", "discrete", "linear", "single precision")
SLOWEST = 5e-6
"""Seconds per action on one core."""


@needs_cc
@pytest.mark.parametrize("kind", KINDS)
def test_c_at_ten_thousand_states(kind: str, tmp_path: Path) -> None:
    done = export_policy(fitted(kind), tmp_path / "policy.h")
    print(f"{kind}: {done.path.stat().st_size:,} bytes, {done.seconds} s per action")
    assert done.n_states == 10_000
    assert done.difference <= (1e-5 if kind == "single precision" else 1e-12)
    assert done.seconds is not None
    assert done.seconds < SLOWEST
    text = done.path.read_text()
    assert set(re.findall(r"#include <(.*)>", text)) == {"math.h"}
    assert "malloc" not in text
    assert str(Path(__file__).parents[2]) not in text


@needs_node
@pytest.mark.parametrize("kind", ["deterministic", "discrete", "linear with noise"])
def test_javascript_at_ten_thousand_states(kind: str, tmp_path: Path) -> None:
    done = export_policy(fitted(kind), tmp_path / "policy.js")
    assert done.n_states == 10_000
    assert done.difference <= 1e-12


@needs_cc
@pytest.mark.parametrize("is_discrete", [False, True])
def test_the_past_of_an_episode_is_kept(is_discrete: bool, tmp_path: Path) -> None:
    """Two episodes in C and in the library, the second after a reset."""
    data = delayed_data(is_discrete=is_discrete).with_history(observations=1, actions=2)
    kind = "discrete" if is_discrete else "deterministic"
    policy = nopg.NOPG(policy=kind, gamma=0.9, hidden=(8,)).fit(data, n_updates=1, progress=False)
    last = list(policy.policy.parameters())[-1]
    last.data.zero_()  # without its bias no label wins everywhere
    done = export_policy(policy, tmp_path / "policy.h")
    assert done.difference <= 1e-9
    seen = np.random.default_rng(0).normal(size=10)
    expected = []
    for t, one in enumerate(seen):
        if t % 5 == 0:
            policy.reset()
        expected.append(float(np.ravel(policy.predict([one])[0])[0]))
    assert len(set(expected)) > 1
    body = f"""
    const double seen[] = {{{", ".join(map(repr, seen.tolist()))}}};
    policy_state state; policy_action action[1] = {{0}}; int t;
    policy_reset(&state);
    for (t = 0; t < 10; t++) {{
      if (t % 5 == 0) policy_reset(&state);
      policy_act(&state, seen + t, action);
      printf("%.17g\\n", (double)action[0]);
    }}"""
    found = printed_by(body, done.path)
    np.testing.assert_allclose(np.ravel(found), expected, atol=1e-6)


@needs_cc
def test_an_action_of_somebody_else_is_remembered(tmp_path: Path) -> None:
    data = delayed_data().with_history(observations=1, actions=2)
    policy = nopg.NOPG(gamma=0.9, hidden=(8,)).fit(data, n_updates=1, progress=False)
    done = export_policy(policy, tmp_path / "policy.h")
    body = """
    const double first = 0.3, second = -0.2, other = 0.7;
    policy_state state; policy_action action[1] = {0};
    policy_reset(&state);
    policy_act(&state, &first, action);
    policy_took(&state, &other);
    policy_act(&state, &second, action);
    printf("%.17g\\n", action[0]);"""
    memory = policy.memory
    assert memory is not None
    whole = memory.complete(np.array([[0.3]]))
    after = memory.after(whole, np.array([[0.7]]))
    expected = policy.predict([-0.2], after)[0]
    unaware = policy.predict([-0.2], memory.after(whole, policy.predict(whole)[0]))[0]
    found = printed_by(body, done.path)[0][0]
    assert found == pytest.approx(expected[0], abs=1e-6)
    assert abs(found - unaware[0]) > 1e-4


@needs_cc
def test_far_states_and_bad_numbers_are_told(tmp_path: Path) -> None:
    policy = fitted("deterministic")
    states = [*map(list, SMALL.observations[:1]), [40.0, 40.0, 900.0]]
    near, far = (", ".join(map(repr, map(float, row))) for row in states)
    body = f"const double rows[][3] = {{{{{near}}}, {{{far}}},"
    body += """
      {0, NAN, 0}, {0, 0, INFINITY}, {1e308, 1e308, -1e308}};
    policy_state state; policy_action action[1] = {0}; int i;
    for (i = 0; i < 5; i++) {
      action[0] = 0.125;
      policy_reset(&state);
      printf("%d ", policy_act(&state, rows[i], action));
      printf("%.17g\\n", action[0]);
    }"""
    own = [policy.predict(state)[0][0] for state in states]
    plain = export_policy(policy, tmp_path / "policy.h")
    found = printed_by(body, plain.path)
    assert [row[0] for row in found[:4]] == [0, 1, 2, 2]
    assert [row[1] for row in found[:2]] == pytest.approx(own, abs=1e-6)
    assert [row[1] for row in found[2:4]] == [0.125] * 2  # as it was
    assert found[4][0] in (1, 2)
    assert np.isfinite(found[4][1])
    guarded = export_policy(policy, tmp_path / "safe.h", "c", fallback=-0.5)
    found = printed_by(body.replace("policy_", "safe_"), guarded.path)
    assert [row[1] for row in found] == pytest.approx([own[0]] + [-0.5] * 4, abs=1e-6)
    bare = printed_by(body, plain.path, "-DPOLICY_NO_GUARD")
    assert [row[0] for row in bare[:4]] == [0, 0, 2, 2]


@needs_node
def test_javascript_guards_too(tmp_path: Path) -> None:
    policy = fitted("deterministic")
    done = export_policy(policy, tmp_path / "policy.js", fallback=-0.5)
    asked = [SMALL.observations[0].tolist(), [40, 40, 900], [0, None, 0], [0, 1]]
    program = f"""
    const policy = require({json.dumps(str(done.path))});
    for (const o of {json.dumps(asked[:2])}.concat([[0, NaN, 0]]))
      console.log(JSON.stringify(policy.act(policy.start(), o)));
    try {{ policy.act(policy.start(), [0, 1]); }}
    catch (error) {{ console.log(error.message); }}
    """
    told = subprocess.run(
        ["node", "-e", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    near, far, bad = (json.loads(line) for line in told[:3])
    assert near["found"] == "ok"
    assert near["action"] == pytest.approx(policy.predict(asked[0])[0], abs=1e-6)
    assert far == {"action": [-0.5], "found": "far"}
    assert bad == {"action": [-0.5], "found": "refused"}
    assert told[3] == "an observation has 3 numbers"


@needs_cc
def test_two_policies_in_one_program(tmp_path: Path) -> None:
    first = export_policy(fitted("deterministic"), tmp_path / "left.h")
    export_policy(fitted("linear"), tmp_path / "right.h")
    body = 'printf("%d %d\\n", LEFT_WIDTH, right_widths[0]);'
    first.path.write_text(first.path.read_text() + '#include "right.h"\n')
    assert printed_by(body, first.path) == [[3, 3]]


@needs_cc
def test_a_header_that_differs_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ProgramRunner.__call__

    def wrong(self: Any, *inputs: Any) -> Any:
        return right(self, *inputs) + 1e-5

    monkeypatch.setattr(ProgramRunner, "__call__", wrong)
    with pytest.raises(NopgError, match=r"differs by 1\.0e-05"):
        export_policy(fitted("deterministic"), tmp_path / "policy.h")
    assert not list(tmp_path.iterdir())


def test_without_a_compiler_it_is_written_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = export_policy(fitted("deterministic"), tmp_path / "policy.h")
    assert done.n_states == 0
    assert done.path.exists()
    assert json.loads(done.contract.read_text())["difference"] is None


def test_names_and_settings_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    policy = fitted("deterministic")
    assert program_name("My-Tank 2") == "my_tank_2"
    for stem in ("2tanks", "...", "_", ""):
        with pytest.raises(ConfigError, match="begin with a letter"):
            program_name(stem)
    wrong: tuple[Any, ...] = (3.0, [0.0, 0.0], float("nan"), "full")
    for fallback in wrong:
        with pytest.raises(ConfigError, match="`fallback` must be"):
            export_policy(policy, tmp_path / "policy.h", fallback=fallback)
    with pytest.raises(ConfigError, match="are for c and js"):
        export_policy(policy, tmp_path / "policy.npz", fallback=[0.0])
    with pytest.raises(ConfigError, match="a label below"):
        export_policy(fitted("discrete"), tmp_path / "policy.h", fallback=17)
    policy.save(tmp_path / "m.nopg", include_data=False)
    bare = nopg.load(tmp_path / "m.nopg")
    assert export_policy(bare, tmp_path / "policy.h").guard is None
    with pytest.raises(ConfigError, match="saved without them"):
        export_policy(bare, tmp_path / "policy.h", guard_points=10)
    assert bare.predict(BOTTOM)[0] == policy.predict(BOTTOM)[0]


def test_a_hostile_name_stays_in_its_comment(tmp_path: Path) -> None:
    names = ("cos */ int evil;", "sin\n#error", "speed [rad/s]")
    data = nopg.Dataset(
        SMALL.observations,
        SMALL.actions,
        SMALL.rewards,
        SMALL.next_observations,
        SMALL.terminations,
        observation_names=names,
    )
    policy = nopg.NOPG(hidden=(4,)).fit(data, [BOTTOM], n_updates=1, progress=False)
    for suffix in (".h", ".js"):
        done = export_policy(policy, tmp_path / f"policy{suffix}")
        comment, _, rest = done.path.read_text().partition("*/")
        assert "evil" in comment
        assert "evil" not in rest
