// Four linked maps: value, visits, policy and data, one cursor for all.

const frames = [];
let probe = null;

function mapTitles() {
  const action = D.action.names[view.action];
  return {
    value: ["Value", "expected return from here"],
    visits: ["Visits", "where it is predicted to go, sooner counts more"],
    action: [`Policy: ${action}`, "what it does here"],
    data: ["Data", { reward: "what was logged; colour: reward", action: "what was logged; colour: the action taken" }[view.colour]],
  };
}

function drawMap(pen, frame, kind) {
  const { plane, isLine } = current();
  if (isLine && kind !== "data") return drawLine(pen, frame, kind, plane);
  if (kind !== "data") paint(pen, frame, kind);
  // Lines only where the question is "where to": value and policy stay readable.
  if (view.paths && !isLine && (kind === "visits" || kind === "data")) drawPaths(pen, frame, kind === "data");
  if (kind === "data" || view.data) drawSamples(pen, frame, kind === "data");
}

function drawLine(pen, frame, kind, plane) {
  const { low, high } = D.axes[0];
  const xs = Array.from({ length: plane.nx }, (_, i) => low + (i / (plane.nx - 1)) * (high - low));
  const layer = Array.from(LAYERS[kind].layer(plane));
  pen.strokeStyle = ink("accent");
  pen.lineWidth = 2;
  pen.globalAlpha = view.fade ? 0.3 : 1;
  polyline(pen, frame, xs, layer);
  pen.globalAlpha = 1;
  polyline(pen, frame, xs, layer.map((v, i) => (plane.untried[i] <= 1 ? v : NaN)));
  if (!view.data) return;
  pen.fillStyle = ink("muted");
  for (const x of samples.at[0]) pen.fillRect(frame.px(x), frame.plot.bottom - 7, 1, 7);
}

function setDomains(frame, kind) {
  const { plane, isLine } = current();
  const x = D.axes[view.x];
  frame.x = view.zoom?.x ?? [x.low, x.high];
  frame.xAxis = x;
  if (isLine) {
    const range = kind === "data" ? extent(samples.reward) : layerRange(kind, plane);
    frame.y = wide(range);
    frame.yAxis = {};
    frame.host.previousSibling.querySelector("small").textContent += kind === "data" ? "; height: reward" : "";
  } else {
    const y = D.axes[view.y];
    frame.y = view.zoom?.y ?? [y.low, y.high];
    frame.yAxis = y;
  }
}

function probeRows(x, y) {
  const { plane } = current();
  const i = cellAt(x, y);
  const rows = [[D.axes[view.x].name, formatOn(D.axes[view.x], x)]];
  if (view.y !== null) rows.push([D.axes[view.y].name, formatOn(D.axes[view.y], y)]);
  rows.push(["value", format(plane.value[i])], ["visits", `${format(100 * plane.visits[i], 2)} %`]);
  rows.push(...actionWords(plane.actions.map((layer) => layer[i])));
  const untried = plane.untried[i];
  rows.push(["untried", `${format(untried, 2)}${untried > 1 ? " – a guess" : ""}`]);
  return rows;
}

function nearestSample(frame, at) {
  let best = -1, closest = 12;
  for (let i = 0; i < samples.n; i++) {
    const [x, y] = sampleAt(i);
    const away = Math.hypot(frame.px(x) - at.px, frame.py(y) - at.py);
    if (away < closest) [best, closest] = [i, away];
  }
  return best;
}

function pickOn(frame, kind, at, event) {
  probe = { x: at.x, y: at.y };
  const i = kind === "data" ? nearestSample(frame, at) : -1;
  if (i >= 0) {
    const rows = D.axes.slice(0, 6).map((axis, a) => [axis.name, formatOn(axis, samples.at[a][i])]);
    rows.push(...(D.action.discrete ? [[D.action.names[0], String(samples.action[0][i])]] : D.action.names.map((name, a) => [name, format(samples.action[a][i])])));
    rows.push(["reward", format(samples.reward[i])]);
    tip.show(event, rows, `row ${samples.row[i]}`);
  } else {
    tip.show(event, probeRows(at.x, at.y));
  }
  const isLine = view.y === null;
  for (const other of frames) other.frame.mark(at.x, isLine ? null : at.y);
}

function legend(kind) {
  const host = byId(`legend-${kind}`);
  const { plane, isLine } = current();
  host.replaceChildren();
  if (isLine && kind !== "data") return;
  const source = kind === "data" ? view.colour : kind;
  if (source === "action" && D.action.discrete) {
    for (let label = 0; label < D.action.n; label++) {
      const dot = make("i");
      dot.style.background = LABELS[label % LABELS.length];
      host.append(make("span", {}, dot, String(label)));
    }
    return;
  }
  const range = [...(kind === "data"
    ? (source === "action" ? [D.action.low[view.action], D.action.high[view.action]] : extent(samples.reward))
    : layerRange(kind, plane))];
  const ramp = kind === "data" ? sampleRamp() : source;
  const bar = make("i", { class: "bar" });
  bar.style.background = `linear-gradient(90deg, ${RAMPS[ramp].join()})`;
  const tiny = 1e-6 * Math.max(...range.map(Math.abs));
  range.forEach((v, i) => (range[i] = Math.abs(v) < tiny ? 0 : v));
  // Ends that look alike get more digits.
  const digits = [3, 4, 5, 6, 7].find((d) => format(range[0], d) !== format(range[1], d)) ?? 3;
  const label = (v) => (kind === "visits" ? `${format(100 * v, 2)} %` : format(v, digits));
  host.append(make("span", { text: label(range[0]) }), bar, make("span", { text: label(range[1]) }));
}

function refreshMaps() {
  const titles = mapTitles();
  for (const { frame, kind, title } of frames) {
    title.replaceChildren(titles[kind][0], make("small", { text: titles[kind][1] }));
    setDomains(frame, kind);
    frame.redraw();
    legend(kind);
  }
  const held = D.axes.map((axis, i) => [axis, i]).filter(([, i]) => i !== view.x && i !== view.y);
  byId("held").textContent = held.length
    ? `Held at the mean of the predicted visits: ${held.map(([a, i]) => `${a.name} = ${formatOn(a, D.held[i])}`).join(", ")}.`
    : "";
  byId("unzoom").disabled = !view.zoom;
}

function addMap(kind) {
  const plot = make("div", { tabindex: "0", class: "map" });
  const title = make("figcaption");
  byId("maps").append(make("figure", {}, title, plot, make("div", { class: "legend", id: `legend-${kind}` })));
  const frame = new Frame(plot, {
    height: 400,
    aspect: view.y === null ? 0.55 : 0.78,
    label: `Map of ${kind} over the states.`,
    draw: (pen, self) => {
      drawMap(pen, self, kind);
      drawDots(self, kind);
    },
    pick: (at, event) => pickOn(frame, kind, at, event),
    leave: () => frames.forEach((other) => other.frame.mark(null)),
    zoom: view.y === null ? null : (x, y) => {
      view.zoom = x ? { x, y } : null;
      refreshMaps();
    },
  });
  frames.push({ frame, kind, title });
  plot.addEventListener("keydown", (event) => moveProbe(event, frame, kind));
}

function moveProbe(event, frame, kind) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  if (event.key === "Escape") return frame.away();
  if (!moves[event.key]) return;
  event.preventDefault();
  const [dx, dy] = moves[event.key];
  const step = (domain, count) => ((domain[1] - domain[0]) / 40) * count;
  const middle = ([low, high]) => (low + high) / 2;
  const clamp = (v, [low, high]) => Math.max(low, Math.min(high, v));
  const from = probe ?? { x: middle(frame.x), y: middle(frame.y) };
  const x = clamp(from.x + step(frame.x, dx), frame.x), y = clamp(from.y + step(frame.y, dy), frame.y);
  const box = frame.host.getBoundingClientRect();
  const at = { x, y, px: frame.px(x), py: frame.py(y) };
  pickOn(frame, kind, at, { clientX: box.left + at.px, clientY: box.top + at.py });
}

/** Fill a menu, or take it away where there is nothing to choose. */
function chooser(id, names, chosen, change, least = 2) {
  const host = byId(id);
  if (names.length < least) return host.remove();
  const select = host.querySelector("select");
  names.forEach((name, i) => select.append(make("option", { value: i, text: name })));
  select.value = chosen;
  select.addEventListener("change", () => {
    change(Number(select.value));
    refreshMaps();
  });
}

function startMaps() {
  for (const kind of ["value", "visits", "action", "data"]) addMap(kind);
  const names = D.axes.map((axis) => axis.name);
  const swap = (mine, other) => (chosen) => {
    if (view[other] === chosen) view[other] = view[mine];
    view[mine] = chosen;
    view.zoom = null;
    byId("choose-x").querySelector("select").value = view.x;
    byId("choose-y").querySelector("select").value = view.y;
  };
  chooser("choose-x", names, view.x, swap("x", "y"), 3);
  chooser("choose-y", names, view.y, swap("y", "x"), 3);
  const actions = D.action.discrete ? [] : D.action.names;
  chooser("choose-action", actions, view.action, (chosen) => (view.action = chosen));
  const colours = ["reward", "action"];
  chooser("choose-colour", colours, colours.indexOf(view.colour), (chosen) => (view.colour = colours[chosen]));
  for (const name of ["paths", "data", "fade"]) {
    const box = byId(`show-${name}`);
    box.checked = view[name];
    box.addEventListener("change", () => {
      view[name] = box.checked;
      refreshMaps();
    });
  }
  byId("unzoom").addEventListener("click", () => {
    view.zoom = null;
    refreshMaps();
  });
  paths.listeners.push(() => frames.forEach(({ frame, kind }) => frame.width && drawDots(frame, kind)));
  refreshMaps();
}
