"""The support guard of an export: a few samples that stand for all of them.

They are picked by greedy farthest-point selection (Gonzalez 1985). Over gaps the threshold grows,
until 99 of 100 samples are within it; an export says how often `SafePolicy` answers otherwise.
"""

import math
from dataclasses import dataclass

import numpy as np

from nopg.data.coverage import farthest_points
from nopg.data.validation import FloatArray
from nopg.errors import ConfigError
from nopg.evaluation.support import USUAL_SHARE
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.sign_off import guard_distance
from nopg.kernels.neighbours import log_label_similarity

N_POINTS = 512  # samples that an export holds at most, unless it is told otherwise


@dataclass(frozen=True)
class SupportPoints:
    """Samples in bandwidths, and how near one of them has to be."""

    points: FloatArray  # columns of state and action over their bandwidths, (p, d)
    scale: FloatArray  # what columns are multiplied with, (d,)
    threshold: float  # largest distance to the nearest point
    full_threshold: float  # that of `SafePolicy`, which knows every sample
    n_samples: int  # how many samples there are

    def told(self, lost: tuple[float, float]) -> str:
        """What the guard is and what it loses, in a sentence."""
        return (
            f"Guard inside: {len(self.points):,} of {self.n_samples:,} samples, far "
            f"beyond {self.threshold:.3g} bandwidths ({self.full_threshold:.3g} with "
            f"all samples); of the states compared it alone calls {lost[0]:.1%} far, "
            f"and {lost[1]:.1%} near that are far for all samples."
        )


def support_points(policy: FittedPolicy, n_points: int = N_POINTS) -> SupportPoints:
    """The guard of a policy that holds its data."""
    data, widths = policy.data, policy.bandwidths
    if data is None:
        raise ConfigError(
            "A support guard needs the data, this policy was saved without them; save it with "
            "include_data=True, or export it without a guard (guard_points=0, --guard-points 0)."
        )
    n_labels = int(getattr(policy.action_space, "n", 0))
    along_actions = 1.0 / np.asarray(widths.action, dtype=np.float64)
    if n_labels:
        # Two labels are sqrt(2) apart as columns; their kernel says how far they are.
        log_ratio = float(log_label_similarity(max(n_labels, 2), widths.action[0])[0, 1])
        along_actions = np.full(n_labels, math.sqrt(-log_ratio))
    scale = np.concatenate([1.0 / np.asarray(widths.state), along_actions])
    taken = data.actions if n_labels == 0 else np.eye(n_labels)[data.actions]
    samples = np.concatenate([data.observations, taken], axis=1) * scale
    kept, gaps = farthest_points(samples, min(n_points, len(np.unique(samples, axis=0))))
    usual = guard_distance(policy)
    reach = max(usual, float(np.quantile(gaps, USUAL_SHARE)))
    return SupportPoints(samples[kept], scale, reach, usual, len(samples))
