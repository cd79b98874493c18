"""Updates of some policies in a learned model in one call of compiled code each, `ascent.c`.

For perceptrons, where nothing is noisy; all else is done by `rollouts.py`, to the same values. A
few paths of some hundred steps take less time than the calls and arrays between them.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from nopg.compiled import MOST_THREADS, compiled, packed
from nopg.dynamics.compiled import compiled_library, laid_out
from nopg.dynamics.transition_model import TransitionModel
from nopg.policies.adam import Adam
from nopg.policies.arrays import Array, ArrayPolicies
from nopg.policies.build import PerceptronPass
from nopg.policies.families import Policy
from nopg.threads import threads_for


class CompiledAscent(NamedTuple):
    """Updates of K policies laid out once, and where their results are."""

    fields: bytes  # for `ascent.c`
    kept: Sequence[Any]  # what these point to
    library: Any
    adams: Sequence[Adam]
    rates: Array  # of Adam, (K, 2)
    lengths: Array  # of the last gradients, (K,)

    @classmethod
    def of(
        cls,
        model: TransitionModel,
        policies: Sequence[Policy],
        adams: Sequence[Adam],  # one for each
        starts: Array,  # (B, d_s), the same for all
        gamma: float,
        horizon: int,
    ) -> Self | None:
        """Lay out updates; None where they are made by `rollout_gradients`."""
        own, library = model.arrays.compiled, compiled("nopg.dynamics", "ascent.c", False)
        (b, d_s), k, rollouts = starts.shape, len(policies), compiled_library()
        states = torch.empty((k, horizon * b, d_s), dtype=torch.float64)
        pairs = zip(policies, states, strict=True)
        passes = [PerceptronPass.of(policy, x, only_slopes=True) for policy, x in pairs]
        if own is None or library is None or model.noise is not None or None in passes:
            return None
        actors, kept, n, d_a = ArrayPolicies(policies), list[Any](), k * b, own.d_a
        fields = actors.compiled_fields(d_a)
        arrays = [np.empty((horizon, n, width)) for width in (d_s, d_a, d_s, d_s, 1, 1, 1, 1)]
        by_state, gradients = np.empty((horizon, n, d_a, d_s)), np.empty((horizon, n, d_a))
        running, credit, rates, lengths = np.ones(n), np.ones(n), np.empty((k, 2)), np.empty(k)

        def struct(*given: Any) -> Any:
            """What another structure points to."""
            kept.append((given, np.frombuffer(packed(*given), dtype=np.uint8).copy()))
            return kept[-1][1]

        def learner(i: int, made: PerceptronPass) -> Any:
            (m, _), rest = made.outputs[0].shape, made.outputs[1 : made.n_learned]
            slopes, by_actions = (states.new_empty((m, d_a, one)) for one in (d_s, 1))
            none = [torch.zeros_like(output) for output in rest]
            ahead = struct(*made.fields(None, None, None, None, slopes))
            back = struct(*made.fields(*[by_actions, *none, *[None] * 4][:5]), *adams[i].changes)
            parts = (states[i], slopes, by_actions, fields["weights"][i], fields["biases"][i])
            return struct(ahead, back, *parts, *adams[i].fields())

        learners = [learner(i, made) for i, made in enumerate(passes) if made is not None]
        forwards = struct(n, horizon, None, running, *arrays)
        numbers = (float(gamma), model.value_limits(gamma)[0])
        backwards = struct(n, 0, *numbers, credit, by_state, None, *arrays, gradients)
        policies_struct, more = laid_out("Policies", fields)
        functions = [rollouts.nopg_rollout, rollouts.nopg_backward]
        functions += [one.library.nopg_perceptron for one in passes[:1] if one is not None]
        whole: list[Any] = [ctypes.cast(one, ctypes.c_void_p).value for one in functions]
        whole += [np.frombuffer(own.struct, np.uint8), np.frombuffer(policies_struct, np.uint8)]
        whole += [forwards, backwards, k, b, horizon, d_s, d_a]
        whole += [np.array([one.ctypes.data for one in learners]), float(gamma)]
        whole += [np.tile(starts, (k, 1)), by_state, rates, lengths]
        return cls(packed(*whole), [whole, kept, more, own], library, adams, rates, lengths)

    def run(self, rate: float) -> Array:
        """Improve each policy once; lengths of the gradients: one that is none changes nothing."""
        self.rates[:] = [adam.rates(rate) for adam in self.adams]
        if self.library.nopg_ascend(self.fields, threads_for(MOST_THREADS)):
            raise MemoryError("There is no memory for an update.")
        for adam, length in zip(self.adams, self.lengths, strict=True):
            adam.n_steps += int(np.isfinite(length) and length > 0.0)
        return self.lengths
