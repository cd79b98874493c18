"""Rows that match their query: kernel rows whose mean is where the policy is.

Of all distributions over the samples whose mean is the query, the matched row is the one closest in
relative entropy to the kernel row (`docs/matched_rows.md`).

With features g_j = (offset of s_j from s, a_j) in bandwidths, both are of one exponential family,

    p_j  ~  psi_j(s) exp(-|a_j|^2 / 2) exp(theta' g_j).

The kernel row has parameter theta_0 = (0, a). The matched row has mean (0, a); its theta minimises

    log sum_j psi_j exp(theta' g_j - |a_j|^2 / 2) - theta_0' theta + Phi(theta - theta_0).

Phi is a wall: flat at 0, steep from `REACH` on, for queries that their samples do not surround.
With C = Cov_p(g, g), H the curvature of the wall and c = Cov_p(q, g), the mean of q has the slope

    d/da (E q)  =  c' (C + H)^-1 (I + H) e_a / h_a:

a local linear regression's where H vanishes, the covariance of Eq. (10) where the wall is steep.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nopg.bellman import compiled_rows
from nopg.bellman.newton import Features, search, slopes_of
from nopg.bellman.rows import EXACT, QueryRows, RowModel, RowWeights
from nopg.linalg.operators import LinearOperator

# Power of the kernel between labels: were it less, tilts reached a mean by what other actions did.
APART = 10.0


class MatchedRows(RowModel):
    """Rows tilted until their mean is their query."""

    def __init__(
        self,
        rows: QueryRows,  # the queries
        offsets: Sequence[Tensor],  # of listed states from their queries, in bandwidths, by block
        bandwidths: Tensor,  # action bandwidths, (d_a,); none for labels
        log_similarity: Tensor | None = None,  # log kernel between labels, (n_actions, n_actions)
    ) -> None:
        self.rows, self._h, self._similarity = rows, bandwidths, log_similarity
        self._library = compiled_rows.library_for(rows.queries)
        self._centre = bandwidths.new_zeros(len(bandwidths))
        # Features of labels are made label by label.
        self._offsets = [] if log_similarity is None else list(offsets)
        self._features: list[Features] = []
        if log_similarity is None:
            self._centre = rows.sample_actions.mean(dim=0)  # about it squares do not cancel
            for block, listed, offset in zip(rows.blocks, rows.actions, offsets, strict=True):
                scaled = (listed.permute(1, 2, 0) - self._centre) / self._h  # (m_b, k_b, d_a)
                self._features.append(self._made(block.log_psi, offset, scaled))

    def at(self, taken: Tensor, start: Tensor | None = None, accuracy: float = EXACT) -> RowWeights:
        """Rows for one action per query, (m, d_a), or for several, (k, m, d_a)."""
        a = (taken - self._centre) / self._h
        if a.ndim == 2:
            return self._solved(self._features, a, start, accuracy)
        pairs = zip(a, [None] * len(a) if start is None else start.unbind(), strict=True)
        draws = [self._solved(self._features, one, guess, accuracy) for one, guess in pairs]
        names = ("log_mass", "dropped", "displacement", "state")
        return RowWeights(
            tuple(torch.stack(each) for each in zip(*(w.blocks for w in draws), strict=True)),
            *(torch.stack([getattr(w, name) for w in draws]) for name in names),
        )

    def at_label(self, label: int) -> RowWeights:
        """Rows for one discrete action, the same at every query, which is their mean."""
        assert self._similarity is not None  # by `Problem.responsibilities`
        to_label = APART * self._similarity[label]  # (n_actions,)
        listed = zip(self.rows.blocks, self.rows.actions, self._offsets, strict=True)
        features = [self._made(x.log_psi + to_label[k], off, off[..., :0]) for x, k, off in listed]
        nothing = self.rows.queries.new_zeros((self.rows.shape[0], 0))
        return self._solved(features, nothing, None, EXACT)

    def slopes(self, weights: RowWeights, operator: LinearOperator, q: Tensor) -> Tensor:
        """d (E q)_i / d a_i for rows of one action per query, (m, d_a)."""
        return self._slopes(weights.blocks, weights.state, q - q.mean())

    def draw_slopes(self, weights: RowWeights, q: Tensor) -> Tensor:
        """The same for rows of several actions per query, (k, m, d_a)."""
        assert weights.state is not None
        q = q - q.mean()
        pairs = zip(zip(*weights.blocks, strict=True), weights.state, strict=True)
        return torch.stack([self._slopes(blocks, state, q) for blocks, state in pairs])

    def _made(self, log_psi: Tensor, offsets: Tensor, actions: Tensor) -> Features:
        actions = actions.expand(*offsets.shape[:2], actions.shape[2])
        g = torch.cat([offsets, actions], dim=2).mT.contiguous()  # (m, d, k)
        return Features(log_psi - 0.5 * actions.square().sum(dim=2), g)

    def _solved(
        self, features: Sequence[Features], taken: Tensor, start: Tensor | None, accuracy: float
    ) -> RowWeights:
        """Rows for one action per query, in bandwidths, (m, d_a)."""
        rows, library = self.rows, self._library
        starts = [None] * len(rows.blocks) if start is None else rows.split(start.mT)
        parts, pieces = [], zip(features, rows.split(taken.mT), starts, strict=True)
        for one, there, close in pieces:
            given = (there.mT, None if close is None else close.mT, accuracy)
            if library is None:
                parts.append(search(one, *given))
            else:
                parts.append(compiled_rows.matched_rows(library, one, *given))
        weights, states, *columns = zip(*parts, strict=True)
        state = rows.gather([part.mT for part in states]).mT
        mass, rest, displaced = (rows.gather(each) for each in columns)
        return RowWeights(weights, mass, rest, displaced, state)

    def _slopes(self, blocks: Sequence[Tensor], state: Tensor | None, q: Tensor) -> Tensor:
        assert state is not None
        parts, states = [], [part.mT for part in self.rows.split(state.mT)]
        for b, (weights, there) in enumerate(zip(blocks, states, strict=True)):
            g, block = self._features[b].g, self.rows.blocks[b]
            if self._library is None:
                found = slopes_of(g, weights, there, self.rows.beside(b, q), self._h)
            else:
                given = (block.columns, g, weights, there, q, self._h)
                found = compiled_rows.matched_slopes(self._library, *given)
            parts.append(found.mT)
        return self.rows.gather(parts).mT
