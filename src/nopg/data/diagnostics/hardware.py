"""What machines do to a log: dead bands, stiction, sensors in steps, limits reached."""

from collections.abc import Iterator

import numpy as np

from nopg.data.diagnostics.checks import Diagnostic, diagnostic
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray

_COARSE = 0.2  # deviations of a change from which on steps of a sensor matter
_PINNED, _OFTEN = 0.02, 3.0  # least share of rows at a limit, and over other values
_LESS, _FLAT = 0.8, 0.2  # what a dead band leaves of a line, and its slope, at most
_STUCK, _TOLD = 15, 0.9  # steps that rest or break loose, and how surely it is told
_FEWEST, _MOST = 100, 20_000  # rows needed, and rows looked at: the first of a long log


def hardware_diagnostics(table: TransitionTable) -> Iterator[Diagnostic]:
    """Whatever stands out of how the machine moves and measures."""
    if len(table) < _FEWEST:
        return
    now, then = table.observations[:_MOST], table.next_observations[:_MOST]
    actions = table.actions[:_MOST].reshape(len(now), -1).astype(np.float64)
    moved = then - now
    for i, name in enumerate(table.observation_names):
        if (step := _resolution(np.append(now[:, i], then[:, i]))) is None:
            yield from _limits(name, then[:, i])
        elif step > _COARSE * (moves := moved[:, i].std()):
            yield diagnostic("coarse_sensor", step <= moves, name=name, step=step, moves=moves)
        if step is None and not table.is_discrete:
            yield from _stuck(name, now[:, i], then[:, i], actions, table.action_names)
    if not table.is_discrete:
        yield from _dead_bands(now, moved, actions, table)


def _resolution(values: FloatArray) -> float | None:
    """The step in which a column counts, None if it does not."""
    span, gaps = float(np.ptp(values)), np.diff(np.unique(values))
    gaps = gaps[gaps > 1e-9 * span]  # less is how numbers are rounded
    if span == 0 or not 6 <= len(gaps) < 0.5 * len(values):
        return None
    step = float(np.median(gaps[gaps < 1.5 * gaps.min()]))
    counts = gaps / step
    return step if (np.abs(counts - np.round(counts)) < 0.02).mean() > 0.99 else None


def _limits(name: str, values: FloatArray) -> Iterator[Diagnostic]:
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < 20:
        return
    for at, which in ((0, "lowest"), (-1, "highest")):
        share = counts[at] / len(values)
        if share > _PINNED and counts[at] > _OFTEN * np.sort(counts)[-3]:
            value = distinct[at]
            yield diagnostic("saturated_states", share=share, name=name, value=value, which=which)


def _stuck(
    name: str, now: FloatArray, then: FloatArray, actions: FloatArray, action_names: tuple[str, ...]
) -> Iterator[Diagnostic]:
    """Stiction: what stands goes on standing unless an action is large enough."""
    is_free = (then > then.min()) & (then < then.max())  # not held by a limit
    stands = (now == then) & is_free
    rests = np.append(False, stands[:-1] & (then[:-1] == now[1:])) & is_free
    if min(int((stands & rests).sum()), int((~stands & rests).sum())) < _STUCK:
        return
    for action, values in zip(action_names, np.abs(actions[rests].T), strict=True):
        held, loose = values[stands[rests]], values[~stands[rests]]
        # The chance that an action that breaks loose is larger than one that does not.
        if np.searchsorted(np.sort(held), loose).mean() > _TOLD * len(held):
            found = {"name": name, "action": action, "least": float(np.quantile(held, 0.95))}
            yield diagnostic("stiction", share=stands.mean(), **found)


def _dead_bands(
    now: FloatArray, moved: FloatArray, actions: FloatArray, table: TransitionTable
) -> Iterator[Diagnostic]:
    """Small actions without effect, beside a quadratic of the states."""
    scaled = (now - now.mean(axis=0)) / np.where(now.std(axis=0) > 0, now.std(axis=0), 1.0)
    smooth = np.column_stack([np.ones(len(now)), scaled, scaled**2])
    unit = np.abs(actions).max(axis=0)
    sizes = actions / np.where(unit > 0, unit, 1.0)
    for j, name in enumerate(table.action_names):
        beside = np.column_stack([smooth, np.delete(sizes, j, axis=1)])
        tried = [
            (*_bend(beside, sizes[:, j], band, column), float(band * unit[j]), state)
            for band in np.quantile(np.abs(sizes[:, j]), (0.1, 0.2, 0.3, 0.4, 0.5))
            for column, state in zip(moved.T, table.observation_names, strict=True)
        ]
        left, slope, band, state = min(tried)
        if left < _LESS and slope < _FLAT and band > 0:
            yield diagnostic("dead_band", name=name, state=state, low=-band, high=band)


def _bend(rest: FloatArray, size: FloatArray, band: float, step: FloatArray) -> tuple[float, float]:
    """What a dead band leaves of what a line leaves, and its slope over the outer."""
    inside = np.clip(size, -band, band)
    line, _ = _fitted(np.column_stack([rest, size]), step)
    bent, _ = _fitted(np.column_stack([rest, size - inside]), step)
    _, weights = _fitted(np.column_stack([rest, inside, size - inside]), step)
    if line == 0 or weights[-1] == 0:
        return 1.0, 1.0
    return bent / line, abs(float(weights[-2] / weights[-1]))


def _fitted(columns: FloatArray, values: FloatArray) -> tuple[float, FloatArray]:
    """Squared errors of a linear regression, and its weights."""
    weights = np.linalg.lstsq(columns, values, rcond=None)[0]
    return float(((values - columns @ weights) ** 2).sum()), np.asarray(weights, dtype=np.float64)
