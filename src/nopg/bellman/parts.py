"""Data of which every rank holds a part.

Of all samples a rank has actions and the vectors of the solves, which rows of P ask for by number.
States and lists are those of its part; others are passed round. Choices rest on one common sample.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nopg.bellman.samples import ArcCoordinates, Samples
from nopg.data.dataset import Dataset
from nopg.linalg.ranks import Ranks

SEEN = 100_000  # rows that choices rest on; if there are no more these are all, in order


def joined_parts(
    data: Any, ranks: Ranks | None, dtype: torch.dtype, device: str, settings: object = None
) -> tuple[Samples, Dataset]:
    """Samples as this process holds them, and the data that choices rest on."""
    if ranks is None or not ranks.shares_data:
        return Samples.of(data, dtype, device), data
    ranks = replace(ranks, sizes=ranks.told(len(data or ()), device))
    part = ranks.part(sum(ranks.sizes))  # an empty one is refused
    names = ("observation_names", "action_names", "is_discrete", "history", "action_space")
    alike = (settings, *data.arrays(), *(getattr(data, name) for name in names))
    ranks.require_same(repr(alike), "columns and settings", device)
    own, seen = Samples.of(data, dtype, device), _seen(data, ranks, device)
    order = torch.arange(len(data), device=device) if own.order is None else own.order
    parts = {name: getattr(own, name) for name in ("actions", "rewards", "continuation")}
    parts["order"] = order + part.start
    whole: dict[str, Any] = {name: ranks.gather(x, ranks.sizes) for name, x in parts.items()}
    n_actions = seen.n_actions if seen.is_discrete else 0
    samples = replace(own, **whole, n_actions=n_actions, ranks=ranks)
    vars(samples)["arcs"] = ArcCoordinates.of(torch.tensor(seen.observations).to(own.states))
    return samples, seen


def _seen(data: Dataset, ranks: Ranks, device: str) -> Dataset:
    """Rows of all parts: some evenly spread, the first of episodes, and the ends of actions."""
    n, size, actions = sum(ranks.sizes), len(data), data.actions.reshape(len(data), -1)
    spread = np.linspace(0, size - 1, size * min(SEEN, n) // n).round().astype(int)
    rows = [*spread, *actions.argmin(axis=0), *actions.argmax(axis=0)]
    if data.episodes is not None:  # whose numbers are those of one part
        rows += [*np.unique(data.episodes, return_index=True)[1]]
        data = replace(data, episodes=data.episodes * ranks.size + ranks.rank)
    own = data.subset(np.unique(rows)).arrays()
    counts, whole = ranks.told(len(own["rewards"]), device), dict[str, Any]()
    for name, array in own.items():
        whole[name] = ranks.gather(torch.tensor(array, device=device), counts).cpu().numpy()
    return replace(data, **whole)
