// Planes of the state space: the numbers behind the maps, and their pictures.

const view = { x: D.first[0], y: D.first[1], action: 0, colour: D.samples.colour, paths: true, data: false, fade: true, zoom: null };

const planes = D.planes.map((plane) => ({
  ...plane,
  value: floats(plane.value),
  visits: floats(plane.visits),
  untried: floats(plane.untried),
  actions: plane.actions.map(floats),
  pictures: new Map(),
}));

const samples = {
  n: D.samples.row.length,
  row: D.samples.row,
  at: D.samples.at.map(floats),
  to: D.samples.to.map(floats),
  reward: floats(D.samples.reward),
  action: D.samples.action.map(floats),
};

const pathsAt = D.paths.at.map(floats);

// The plane in view; `turned` when it is stored with its axes the other way round.
function current() {
  const isLine = view.y === null;
  const plane = isLine
    ? planes[0]
    : planes.find((p) => (p.x === view.x && p.y === view.y) || (p.x === view.y && p.y === view.x));
  return { plane, isLine, turned: !isLine && plane.x !== view.x };
}

function cellAt(x, y) {
  const { plane, isLine, turned } = current();
  const index = (axis, v, count) => {
    const { low, high } = D.axes[axis];
    return Math.max(0, Math.min(count - 1, Math.round(((v - low) / (high - low)) * (count - 1))));
  };
  const [px, py] = turned ? [y, x] : [x, y];
  const column = index(plane.x, px, plane.nx);
  return (isLine ? 0 : index(plane.y, py, plane.ny)) * plane.nx + column;
}

// Range of a layer among cells the data reach, where there are any; a few extreme cells
// do not take the colours from all others.
function rangeOf(plane, layer) {
  plane.ranges ??= new Map();
  if (!plane.ranges.has(layer)) {
    const reached = Array.from(layer).filter((_, i) => plane.untried[i] <= 1);
    const all = (reached.length > 3 ? reached : Array.from(layer)).sort((a, b) => a - b);
    const at = (share) => all[Math.round(share * (all.length - 1))];
    plane.ranges.set(layer, all.length > 400 ? [at(0.01), at(0.99)] : extent(all));
  }
  return plane.ranges.get(layer);
}

const LAYERS = {
  value: { layer: (p) => p.value, ramp: "value", share: (v, [a, b]) => (v - a) / (b - a || 1) },
  // Visits spread over decades: the square root shows the path and its surroundings.
  visits: { layer: (p) => p.visits, ramp: "visits", share: (v, [, b]) => Math.sqrt(Math.max(0, v) / (b || 1)) },
  action: { layer: (p) => p.actions[view.action], ramp: "action", share: (v, [a, b]) => (v - a) / (b - a || 1) },
};

function layerRange(kind, plane) {
  if (kind === "action" && !D.action.discrete) return [D.action.low[view.action], D.action.high[view.action]];
  if (kind === "visits") return [0, extent(plane.visits)[1]];
  return rangeOf(plane, LAYERS[kind].layer(plane));
}

function cellColour(kind, plane, i, range) {
  if (kind === "action" && D.action.discrete) {
    const pure = channels(LABELS[plane.actions[0][i] % LABELS.length]);
    const pale = isDark() ? 60 : 235;
    const sure = (plane.actions[1][i] - 1 / D.action.n) / (1 - 1 / D.action.n || 1);
    return pure.map((c) => pale + (0.25 + 0.75 * sure) * (c - pale));
  }
  const { layer, ramp, share } = LAYERS[kind];
  return shade(ramp, share(layer(plane)[i], range));
}

function isDark() {
  return byId("theme").getAttribute("aria-pressed") === "true";
}

// How much of a cell is shown: all of it near data, a trace of it far from them.
function presence(kind, untried) {
  if (!view.fade || kind === "visits") return 255; // where it goes is no matter of data
  return 255 * Math.max(0.1, Math.min(1, 2 - untried));
}

function picture(kind) {
  const { plane, turned } = current();
  const key = [kind, view.action, view.fade, turned, isDark()].join();
  if (plane.pictures.has(key)) return plane.pictures.get(key);
  const [width, height] = turned ? [plane.ny, plane.nx] : [plane.nx, plane.ny];
  const canvas = make("canvas", { width, height });
  const pen = canvas.getContext("2d");
  const pixels = pen.createImageData(width, height);
  const range = layerRange(kind, plane);
  for (let row = 0; row < plane.ny; row++) {
    for (let column = 0; column < plane.nx; column++) {
      const i = row * plane.nx + column;
      const [x, y] = turned ? [row, column] : [column, row];
      const at = 4 * ((height - 1 - y) * width + x);  // pictures begin at the top
      pixels.data.set(cellColour(kind, plane, i, range), at);
      pixels.data[at + 3] = presence(kind, plane.untried[i]);
    }
  }
  pen.putImageData(pixels, 0, 0);
  plane.pictures.set(key, canvas);
  return canvas;
}

function paint(pen, frame, kind) {
  const image = picture(kind);
  const x = D.axes[view.x], y = D.axes[view.y];
  // A grid point is the middle of a pixel: the picture is half a cell larger.
  const dx = (x.high - x.low) / (image.width - 1) / 2, dy = (y.high - y.low) / (image.height - 1) / 2;
  const left = frame.px(x.low - dx), right = frame.px(x.high + dx);
  const top = frame.py(y.high + dy), bottom = frame.py(y.low - dy);
  pen.imageSmoothingEnabled = true;
  pen.imageSmoothingQuality = "high";
  pen.drawImage(image, left, top, right - left, bottom - top);
}

function actionWords(values) {
  if (D.action.discrete) {
    const [label, sure] = values;
    return [[D.action.names[0], `${label} with ${Math.round(100 * sure)} %`, LABELS[label % LABELS.length]]];
  }
  return D.action.names.map((name, i) => [name, format(values[i])]);
}
