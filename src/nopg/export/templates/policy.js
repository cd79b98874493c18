/* @TITLE@
@ABOUT@
 *
 *     const state = @p@.start();                       for every episode
 *     const { action, found } = @p@.act(state, observation);
 *
 * `found` is "ok"; "far" if no sample of the data is near, `action` is then the fallback
 * where one was named; or "refused" for numbers that are not finite, `action` is then the
 * fallback, or null. Whoever takes another action tells it with @p@.took(state, action).
 */
const @p@ = (() => {
  "use strict";
@NUMBERS@
  const columns = (action) =>
    IS_DISCRETE ? [...Array(N_TAKEN).keys()].map((j) => +(j === action)) : action;

  function choose(seen) {
    let x = seen.map((value, i) => (value - mean[i]) / std[i]), at = 0;
    for (let layer = 0; layer + 1 < widths.length; layer++) {
      const n = widths[layer + 1], to = weights.slice(at, at + n);
      at += n;
      for (const value of x) {
        if (layer === 0 || !(value <= 0))
          for (let j = 0; j < n; j++) to[j] += value * weights[at + j];
        at += n;
      }
      x = to;
    }
    if (IS_DISCRETE) return x.every(isFinite) ? x.indexOf(Math.max(...x)) : null;
    x = x.slice(0, N_TAKEN).map((value, j) => {
      const free = IS_SQUASHED ? centre[j] + half_width[j] * Math.tanh(value) : value;
      return Math.min(Math.max(free, low[j]), high[j]);
    });
    return x.every(isFinite) ? x : null;
  }

  function isNear(seen, action) {
    const x = [...seen, ...columns(action)].map((value, i) => value * scale[i]);
    for (let at = 0; at < points.length; at += x.length) {
      let distance = 0;
      for (let i = 0; i < x.length; i++) distance += (x[i] - points[at + i]) ** 2;
      if (distance <= threshold[0] ** 2) return true;
    }
    return points.length === 0;
  }

  const start = () => ({ past: null });

  function took(state, action) {
    copied.forEach((k, i) => {
      if (k >= WIDTH) state.past[i] = columns(action)[k - WIDTH];
    });
  }

  function act(state, observation) {
    if (observation.length !== N_OBSERVATIONS)
      throw new RangeError(`an observation has ${N_OBSERVATIONS} numbers`);
    const past = state.past || first.map((k) => [...observation, ...before][k]);
    const seen = [...observation, ...past.map((value, i) =>
      i < N_CHANGES ? observation[i] - value : value)];
    const chosen = seen.every(isFinite) ? choose(seen) : null;
    const found = chosen === null ? "refused" : isNear(seen, chosen) ? "ok" : "far";
    const instead = IS_DISCRETE ? fallback[0] : fallback;
    const action = found === "ok" || !fallback.length ? chosen : instead;
    if (found !== "refused") {
      state.past = copied.map((k) => seen[k]);
      took(state, action);
    }
    return { action, found };
  }

  return { start, act, took };
})();
if (typeof module !== "undefined") module.exports = @p@;
