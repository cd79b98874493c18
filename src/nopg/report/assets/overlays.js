// What lies over the maps: samples, lines of predicted paths, dots where they are.

const sampleRamp = () => (view.colour === "action" ? "action" : "value");

function sampleColour(i) {
  if (view.colour === "action" && D.action.discrete) return LABELS[samples.action[0][i] % LABELS.length];
  const layer = view.colour === "action" ? samples.action[view.action] : samples[view.colour];
  samples.ranges ??= new Map();
  if (!samples.ranges.has(layer)) samples.ranges.set(layer, extent(layer));
  const range = view.colour === "action" ? [D.action.low[view.action], D.action.high[view.action]] : samples.ranges.get(layer);
  const { share } = LAYERS[view.colour === "reward" ? "value" : "action"];
  return css(shade(sampleRamp(), share(layer[i], range)));
}

function sampleAt(i) {
  return [samples.at[view.x][i], view.y === null ? samples.reward[i] : samples.at[view.y][i]];
}

function drawSamples(pen, frame, isMain) {
  const size = samples.n > 2000 ? 1.6 : samples.n > 600 ? 2.2 : 3;
  pen.lineWidth = 1;
  pen.strokeStyle = ink("trace");
  for (let i = 0; i < samples.n; i++) {
    const [x, y] = sampleAt(i);
    if (isMain && view.y !== null) {
      const tx = samples.to[view.x][i], ty = samples.to[view.y][i];
      if (!isWrap(x, tx, view.x) && !isWrap(y, ty, view.y)) {
        pen.beginPath();
        pen.moveTo(frame.px(x), frame.py(y));
        pen.lineTo(frame.px(tx), frame.py(ty));
        pen.stroke();
      }
    }
  }
  for (let i = 0; i < samples.n; i++) {
    const [x, y] = sampleAt(i);
    pen.fillStyle = isMain ? sampleColour(i) : "rgba(255,255,255,.55)";
    pen.beginPath();
    pen.arc(frame.px(x), frame.py(y), isMain ? size : size * 0.6, 0, 7);
    pen.fill();
    if (isMain) pen.stroke();
  }
}

const isWrap = (from, to, axis) => D.axes[axis].angle && Math.abs(from - to) > Math.PI;

const MOST_LINES = 6;

function drawPaths(pen, frame, isMain) {
  const { steps } = D.paths, n = D.paths.isPath ? Math.min(D.paths.k, MOST_LINES) : 0;
  pen.lineWidth = 1.1;
  pen.lineJoin = "round";
  const alpha = 0.5;
  pen.strokeStyle = isMain ? ink("path") : `rgba(255,255,255,${alpha})`;
  pen.globalAlpha = isMain ? alpha : 1;
  for (let p = 0; p < n; p++) {
    pen.beginPath();
    for (let t = 0; t <= steps; t++) {
      const x = pathsAt[view.x][p * (steps + 1) + t], y = pathsAt[view.y][p * (steps + 1) + t];
      if (Number.isNaN(x)) break;
      const before = p * (steps + 1) + t - 1;
      const isJump = t === 0 || isWrap(pathsAt[view.x][before], x, view.x) || isWrap(pathsAt[view.y][before], y, view.y);
      if (isJump) pen.moveTo(frame.px(x), frame.py(y));
      else pen.lineTo(frame.px(x), frame.py(y));
    }
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function drawDots(frame, kind) {
  frame.dots.replaceChildren();
  const { plane, isLine } = current();
  const { k, steps } = D.paths;
  if (!view.paths || (isLine && kind === "data")) return;
  const p = frame.plot;
  for (let path = 0; path < k; path++) {
    const i = path * (steps + 1) + paths.step;
    const at = pathsAt[view.x][i];
    if (Number.isNaN(at)) continue;
    const up = isLine ? LAYERS[kind].layer(plane)[cellAt(at, 0)] : pathsAt[view.y][i];
    const x = frame.px(at), y = frame.py(up);
    if (x > p.left - 2 && x < p.right + 2 && y > p.top - 2 && y < p.bottom + 2) {
      frame.dots.append(make("circle", { cx: x, cy: y, r: 3.2 }));
    }
  }
}
