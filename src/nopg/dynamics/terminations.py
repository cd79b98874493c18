"""How episodes terminate in a learned model, and what a termination is worth."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from nopg.policies.arrays import Array

MAX_POINTS = 1024  # next states that the probability of a termination rests on
MANY = 3  # ends beyond all other states that make a limit
SHARPER = 4.0  # how much narrower a kernel is made, to see its blur
LEAST = 5  # ends beyond no limit from which on columns have widths of their own
BEYOND = 2.0  # typical steps that ends may be beyond a limit, on average
LOG_WIDTHS = (-4.0, 4.0)  # of the kernel along a column, in deviations of the data
N_SEARCHED, PRIOR = 30, 1e-3  # steps of a search for widths, and its prior
AT_ONCE, EXACT = 4_000_000, "donot_use_mm_for_euclid_dist"  # distances, and how they are found
N_AROUND = 64  # places around each prize
BORDER = 6.0  # kernel widths from a limit, within which states are mirrored at it


Tensors = tuple[Tensor, ...]
Limits = list[tuple[int, float, Tensor, Tensor]]  # column, side, place, and which are beyond


class Limit(NamedTuple):
    """Of a column, beyond which episodes end whatever the others are."""

    column: int
    slope: float  # of the logit of an end by the column
    offset: float  # of that logit
    reward: float  # what it pays

    def crossed(self, states: Array) -> Array:
        """Probability that it is, (m,)."""
        logits = self.slope * states[:, self.column] - self.offset
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * logits))


@dataclass(frozen=True)
class TerminationModel:
    """Nadaraya-Watson regression of whether a state ends the episode."""

    points: Tensor  # next states seen, in units of `unit`, (m, d_s)
    is_terminal: Tensor  # whether the episode terminated there, 0 or 1, (m,)
    rewards: Tensor  # what that termination was worth, 0 for the others, (m,)
    unit: Tensor  # standard deviation of each dimension, (d_s,)
    width: float  # of the kernel, in these units
    suggested: Tensors  # and places beyond limits that few ends suggest, and around prizes
    log_counts: Tensor | None = None  # of the rows that each point stands for, (m,); None for one
    limits: tuple[Limit, ...] = ()  # beside the points, which tell of other ends

    @classmethod
    def fit(
        cls,
        next_states: Tensor,
        rewards: Tensor,
        terminations: Tensor,
        generator: np.random.Generator,
        like: Self | None = None,
        *,
        typical_step: Tensor | None = None,  # of each column, (d_s,), if ends may be impacts
    ) -> Self | None:
        """From n transitions; None if nothing terminated. Columns count as they do in `like`."""
        is_terminal = terminations.to(torch.bool)
        if not bool(is_terminal.any()):
            return None
        unit = next_states.std(dim=0, correction=0)
        unit = torch.where(unit > 1e-12, unit, torch.ones_like(unit))
        drawn = torch.as_tensor(generator.permutation(len(next_states)))
        points, ended, order, log_counts = _informative(next_states / unit, is_terminal, drawn)
        paid = ended * rewards[order]
        near = torch.cdist(points[-500:], points).topk(min(3, len(points)), largest=False)
        width, every = float(near.values[:, -1].median()) + 1e-6, next_states[~is_terminal] / unit
        most = float(torch.where(is_terminal, rewards.min(), rewards).max())
        outer = _limits(points, ended > 0.0, every, MANY)
        crossed = [k for *_, k in outer if not _is_mixed(points[k], paid[k], most)]
        is_told = sum(crossed, torch.zeros(len(points), dtype=torch.bool))
        # Before what costs, kernels as wide as data are apart keep policies away.
        is_asked = (ended > 0.0) & ~is_told & (_are_sought(paid, most) | (typical_step is not None))
        if int(is_asked.sum()) < LEAST:
            thin = torch.ones_like(unit)
            for j, sign, place, beyond in outer:
                if _slope(points[beyond], paid[beyond], most).any():  # blur pays who hovers
                    over = (sign * points[beyond, j] - place).mean()
                    thin[j] = (over / (SHARPER * width)).clamp(1e-3, 1.0)
            points, every, unit = points / thin, every / thin, unit * thin
            seen, by = (points, ended, paid, log_counts), (points, ended > 0.0, every)
            rest = (BORDER * width, most)
            found, others = (_mirrored(seen, _limits(*by, k), *rest)[:3] for k in (MANY, 1))
            return cls(found[0], found[1], found[2], unit, width, others)
        # Impacts are no limits: others passed by there. Nobody gets far beyond a limit.
        limits, is_told = [], torch.zeros_like(is_terminal)
        step = 0.0 * unit if typical_step is None else typical_step
        for j, sign, place, beyond in _limits(next_states / unit, is_terminal, every, MANY):
            over = (sign * next_states[beyond, j] - place * unit[j]).mean()
            is_mixed = _is_mixed((next_states / unit)[beyond], rewards[beyond], most)
            if over < BEYOND * step[j] and not is_mixed:
                given = (sign / over, place * unit[j] / over, rewards[beyond].mean())
                limits.append(Limit(j, *map(float, given)))
                is_told |= beyond
        drawn = drawn[~is_told[drawn]]
        points, ended, order, log_counts = _informative(next_states / unit, is_terminal, drawn)
        episodes = is_terminal.cumsum(0) - is_terminal.long()  # each with its end
        its = None if like is None or like.log_counts is None else like.unit
        kinds = ended * (1.0 + (rewards[order] > most))  # none, a usual end, a prize
        unit = unit * _widths(points, kinds, log_counts, episodes[order]) if its is None else its
        points, ended, order, log_counts = _informative(next_states / unit, is_terminal, drawn)
        paid, every = ended * rewards[order], next_states[~is_terminal] / unit
        outer = _limits(points, ended > 0.0, every, MANY)
        outer = [one for one in outer if _is_mixed(points[one[3]], paid[one[3]], most)]
        whole = _mirrored((points, ended, paid, log_counts), outer, BORDER, most)
        others = _with_around(whole[:3], most) if typical_step is None else whole[:3]
        points, ended, paid, log_counts = whole
        return cls(points, ended, paid, unit, 1.0, others, log_counts, tuple(limits))

    def sharper(self) -> Self:
        """Another that the data allow: less blur, limits that one end suggests, smaller goals."""
        points, ended, paid = self.suggested
        found = replace(self, points=points, is_terminal=ended, rewards=paid)
        if (counts := self.log_counts) is not None:
            counts = torch.cat([counts, counts.new_zeros(len(points) - len(counts))])
        return replace(found, log_counts=counts, width=self.width / SHARPER)

    def gradients(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Of the probability and what an end pays: covariances under the weights, (m, d_s) each."""
        distance = torch.cdist(states / self.unit, self.points) / self.width
        scores = -0.5 * distance.square() + (0.0 if self.log_counts is None else self.log_counts)
        weights, found = torch.softmax(scores, dim=1), []
        for values, at in ((self.is_terminal, (1.0,) * len(self.limits)), (self.rewards, None)):
            expected = weights @ values
            share = weights * (values - expected[:, None])
            slopes = (share @ self.points) / (self.width**2 * self.unit)
            for limit, paid in zip(self.limits, at or (x.reward for x in self.limits), strict=True):
                crossed = torch.from_numpy(limit.crossed(states.numpy()))
                slopes *= 1.0 - crossed[:, None]
                by_column = limit.slope * crossed * (1.0 - crossed)
                slopes[:, limit.column] += (paid - expected) * by_column
                expected = expected + (paid - expected) * crossed
            found.append(slopes)
        return found[0], found[1]


def continuing_rewards(inputs: Tensor, rewards: Tensor, terminations: Tensor) -> Tensor:
    """Rewards as if no episode had terminated: there, that of the nearest other step.

    A prize or a fine for terminating jumps where the episode ends, and no smooth regression follows
    it; it belongs to the termination model. Inputs are states and actions, (n, d).
    """
    is_terminal = terminations.to(torch.bool)
    if not bool(is_terminal.any()) or bool(is_terminal.all()):
        return rewards
    spread = inputs.std(dim=0, correction=0)
    x = inputs / torch.where(spread > 1e-12, spread, torch.ones_like(spread))
    others, found = x[~is_terminal], rewards.clone()
    parts = torch.split(x[is_terminal], max(1, AT_ONCE // len(others)))
    nearest = [torch.cdist(part, others, compute_mode=EXACT).argmin(dim=1) for part in parts]
    found[is_terminal] = rewards[~is_terminal][torch.cat(nearest)]
    return found


def _mirrored(seen: Tensors, outer: Limits, edge: float, most: float) -> Tensors:
    """The same and mirror images of points near `outer` limits, on their other side."""
    # Most ends are limits of one column: a pole that leans too far, an edge, a goal. If so many
    # ends were seen beyond all that any other state has in a column, the limit holds wherever the
    # other columns are: beyond it also where nobody has crossed it yet, and not before it, also
    # where nobody was seen short of it. Each limit has on either side points, whether they end an
    # episode, and what it pays to end there: as a line tells, or as the nearest who crossed it.
    (points, ended, paid, counts), found = seen, [seen]
    is_end, is_beyond = ended > 0.0, sum(crossed.long() for *_, crossed in outer)
    for j, sign, limit, crossed in outer:
        depth, ours, pays = sign * points[:, j] - limit, points[crossed], paid[crossed]
        slope, is_mixed = _slope(ours, pays, most), _is_mixed(ours, pays, most)
        # Beyond two limits at once an image would still be beyond the other.
        for which in (~is_end & (-depth < edge), crossed & (is_beyond == 1)):
            images = points[which & (depth < edge)].clone()
            images[:, j] = 2.0 * sign * limit - images[:, j]
            ends = (~is_end[which & (depth < edge)]).to(ended)
            pay = pays.mean() + (images - ours.mean(dim=0)) @ slope
            if is_mixed:
                pay = torch.softmax(-0.5 * torch.cdist(images, ours).square(), dim=1) @ pays
            pay = ends * pay.clamp(pays.min(), pays.max())
            found.append((images, ends, pay, counts[which & (depth < edge)]))
    return tuple(map(torch.cat, zip(*found, strict=True)))


def _are_sought(paid: Tensor, most: float) -> Tensor:
    """Which ends are a prize, or an end to costs."""
    return paid >= most if most <= 0.0 else paid > most


def _with_around(seen: Tensors, most: float) -> Tensors:
    """The same and places around prizes, twice as far as these are from each other, without any."""
    # Behind a goal there are no rows, since all have ended: its kernels reach as far as one likes.
    prizes = seen[0][(seen[1] > 0.0) & _are_sought(seen[2], most)]
    near = torch.cdist(prizes, prizes).fill_diagonal_(torch.inf).amin(dim=1).quantile(0.9)
    drawn, apart = np.random.default_rng(0).normal, 2.0 * near
    ways = torch.as_tensor(drawn(size=(N_AROUND, prizes.shape[1])))
    found = (prizes[:, None] + apart * ways / ways.norm(dim=1, keepdim=True)).flatten(0, 1)
    found = found[torch.cdist(found, prizes).amin(dim=1) > (1.0 - 1e-9) * apart]
    none = found.new_zeros(len(found))
    return tuple(map(torch.cat, zip(seen, (found, none, none), strict=True)))


def _slope(points: Tensor, paid: Tensor, most: float) -> Tensor:
    """How prizes for crossing a limit change with the state, (d_s,): not if no line tells most."""
    # A prize is more than the `most` that other steps earn. Before fines blur keeps policies away.
    if len(points) <= 2 * points.shape[1] or not bool(paid.max() > most):
        return torch.zeros_like(points[0])
    x, y = points - points.mean(dim=0), (paid - paid.mean())[:, None]
    slope: Tensor = torch.linalg.lstsq(x, y, driver="gelsd").solution
    is_told = (y - x @ slope).square().sum() < 0.5 * y.square().sum()
    return slope[:, 0] * float(is_told)


def _is_mixed(points: Tensor, paid: Tensor, most: float) -> bool:
    """Whether only some of those who crossed a limit had a prize, and no line tells which."""
    return 0 < int((paid > most).sum()) < len(paid) and not _slope(points, paid, most).any()


def _limits(points: Tensor, is_end: Tensor, every: Tensor, many: int) -> Limits:
    """All limits of `many` ends or more."""
    # `every` state that did not end is asked, not only those among the points.
    found = []
    for j in range(points.shape[1] if len(every) else 0):
        for sign in (1.0, -1.0):
            side, far = sign * points[:, j], (sign * every[:, j]).max()
            crossed = is_end & (side > far)
            if int(crossed.sum()) >= many:
                found.append((j, sign, 0.5 * (far + side[crossed].min()), crossed))
    return found


def _widths(points: Tensor, kinds: Tensor, log_counts: Tensor, episodes: Tensor) -> Tensor:
    """Kernel widths by column with which episodes tell best where others end, (d_s,)."""
    own, is_same = (kinds[:, None] == kinds).to(points), episodes[:, None] == episodes
    log_widths = torch.zeros(points.shape[1]).to(points).requires_grad_()
    search = torch.optim.LBFGS([log_widths], max_iter=N_SEARCHED, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        scaled = points / log_widths.exp()
        scores = log_counts - 0.5 * torch.cdist(scaled, scaled).square()
        shares = (torch.softmax(scores.masked_fill(is_same, -1e9), dim=1) * own).sum(dim=1)
        losses = -((1.0 - 2.0 * PRIOR) * shares + PRIOR).log()
        found = (log_counts.exp() * losses).sum() / (kinds > 0.0).sum()
        # Columns that say nothing are left about as wide as the data.
        found = found + PRIOR * log_widths.square().sum()
        found.backward()  # type: ignore[no-untyped-call]
        return found

    search.step(loss)  # type: ignore[no-untyped-call]
    return log_widths.detach().nan_to_num(0.0).clamp(*LOG_WIDTHS).exp()


def _informative(every: Tensor, is_end: Tensor, names: Tensor) -> tuple[Tensor, ...]:
    """At most `MAX_POINTS` of those named: terminal ones, those next to them, and others.

    And whether they are terminal, their names, and the logarithm of how many rows each stands for.
    """
    points, is_terminal = every[names], is_end[names]
    # At the border of terminal states the probability changes, so it is kept dense.
    if len(points) <= MAX_POINTS:
        return points, is_terminal.to(points), names, torch.zeros(len(points)).to(points)
    terminal = torch.nonzero(is_terminal)[: MAX_POINTS // 3, 0]
    others = torch.nonzero(~is_terminal)[:, 0]
    n_others = min(MAX_POINTS - len(terminal), len(others))
    distance = torch.cdist(points[others], points[terminal]).amin(dim=1)
    beside = others[distance.argsort(stable=True)[: n_others // 2]]
    is_left = torch.ones(len(points), dtype=torch.bool)
    is_left[beside] = False
    left = others[is_left[others]]
    far = left[: n_others - len(beside)]
    chosen = torch.cat([terminal, beside, far])
    counts = torch.ones(len(chosen)).to(points)
    counts[: len(terminal)] = int(is_terminal.sum()) / len(terminal)
    counts[len(chosen) - len(far) :] = len(left) / max(len(far), 1)
    return points[chosen], is_terminal[chosen].to(points), names[chosen], counts.log()
