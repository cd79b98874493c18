// Predicted paths over time: one small plot per coordinate, one cursor for all.

const paths = {
  step: 0,
  listeners: [],
  setStep(step) {
    this.step = Math.max(0, Math.min(D.paths.steps, Math.round(step)));
    for (const listener of this.listeners) listener();
  },
};

function pathSeries() {
  const { k, steps } = D.paths;
  const cut = (text, length, count = k) => {
    const all = floats(text);
    return Array.from({ length: count }, (_, i) => all.subarray(i * length, (i + 1) * length));
  };
  const logged = (part, i) => (D.logged ? cut(D.logged[part][i], steps + 1, D.logged.k) : []);
  const series = D.axes.map((axis, i) => ({ name: axis.name, axis, lines: cut(D.paths.at[i], steps + 1), logged: logged("at", i) }));
  D.paths.action.forEach((text, i) => {
    series.push({ name: D.action.names[i], axis: {}, lines: cut(text, steps + 1), isAction: true, logged: logged("action", i) });
  });
  series.push({ name: "how untried, 1 is the mark", axis: {}, lines: cut(D.paths.untried, steps + 1), limit: 1, logged: [] });
  return series;
}

function brokenAtWraps(line, axis) {
  if (!axis.angle) return line;
  const broken = [];
  for (let i = 0; i < line.length; i++) broken.push(i && Math.abs(line[i] - line[i - 1]) > Math.PI ? NaN : line[i]);
  return broken;
}

// Where 80 % of the paths are, and their middle; an angle has no middle. Actions jump
// between extremes, and their median with them: the mean tells more.
function quantiles(lines, length, isMean) {
  const parts = { low: [], middle: [], high: [] };
  for (let t = 0; t < length; t++) {
    const here = lines.map((line) => line[t]).filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
    const part = (share) => (here.length > 2 ? here[Math.round(share * (here.length - 1))] : NaN);
    const mean = here.reduce((sum, v) => sum + v, 0) / here.length;
    parts.low.push(part(0.1));
    parts.middle.push(isMean && here.length > 2 ? mean : part(0.5));
    parts.high.push(part(0.9));
  }
  return parts;
}

function fillBetween(pen, frame, low, high) {
  const known = low.findIndex((v) => Number.isNaN(v));
  const end = known < 0 ? low.length : known;
  pen.beginPath();
  for (let t = 0; t < end; t++) pen.lineTo(frame.px(t), frame.py(high[t]));
  for (let t = end - 1; t >= 0; t--) pen.lineTo(frame.px(t), frame.py(low[t]));
  pen.fill();
}

function drawSeries(host, series) {
  const times = Array.from({ length: D.paths.steps + 1 }, (_, i) => i);
  const lines = series.lines.map((line) => brokenAtWraps(line, series.axis));
  const parts = quantiles(series.lines, series.lines[0].length, series.isAction);
  const logged = series.logged.map((line) => brokenAtWraps(line, series.axis));
  const all = [...lines, ...logged].flatMap((line) => Array.from(line));
  const frame = new Frame(host, {
    height: 168,
    label: `${series.name} along ${D.paths.k} predicted paths.`,
    ticks: { y: 3 },
    draw(pen) {
      pen.lineJoin = "round";
      pen.lineWidth = 1;
      pen.strokeStyle = ink("logged");
      for (const line of logged) polyline(pen, frame, times, line);
      pen.strokeStyle = pen.fillStyle = ink(series.limit ? "warm" : "accent");
      pen.lineWidth = 1;
      pen.globalAlpha = series.axis.angle ? 0.3 : 0.12;
      // Draws that are no paths are points: a line between them would mean nothing.
      if (D.paths.isPath) for (const line of lines) polyline(pen, frame, times, line);
      else for (const line of lines) line.forEach((v, t) => pen.fillRect(frame.px(t) - 1, frame.py(v) - 1, 2, 2));
      if (!series.axis.angle) fillBetween(pen, frame, parts.low, parts.high);
      pen.globalAlpha = 1;
      pen.lineWidth = 2;
      if (!series.axis.angle) polyline(pen, frame, times, parts.middle);
      if (series.limit) {
        pen.strokeStyle = ink("muted");
        pen.setLineDash([4, 4]);
        polyline(pen, frame, [0, D.paths.steps], [series.limit, series.limit]);
        pen.setLineDash([]);
      }
    },
    pick(at, event) {
      paths.setStep(at.x);
      const here = series.lines.map((line) => line[paths.step]).filter((v) => !Number.isNaN(v) && v !== undefined);
      here.sort((a, b) => a - b);
      const part = (share) => here[Math.floor(share * (here.length - 1))];
      tip.show(event, [
        ["step", String(paths.step)],
        series.isAction ? ["mean", format(parts.middle[paths.step])] : ["median", formatOn(series.axis, part(0.5))],
        ["80 % of them", here.length ? `${format(part(0.1), 3)} to ${format(part(0.9), 3)}` : "–"],
        ["still going", `${Math.round(100 * D.paths.running[paths.step])} %`],
      ]);
    },
  });
  frame.x = [0, D.paths.steps];
  const high = Math.max(extent(all)[1], series.limit ?? -Infinity);
  frame.y = series.axis.angle ? [-Math.PI, Math.PI] : wide(series.limit ? [0, high] : extent(all));
  frame.yAxis = { angle: series.axis.angle };
  paths.listeners.push(() => frame.mark(paths.step || null, null));
  frame.redraw();
}

function startPaths() {
  const host = byId("paths");
  for (const series of pathSeries()) {
    const plot = make("div");
    const figure = make("figure", {}, make("figcaption", { text: series.name }), plot);
    host.append(figure);
    drawSeries(plot, series);
  }
  const slider = byId("step");
  slider.max = D.paths.steps;
  slider.addEventListener("input", () => paths.setStep(Number(slider.value)));
  paths.listeners.push(() => {
    slider.value = paths.step;
    byId("step-now").textContent = `step ${paths.step} of ${D.paths.steps}`;
  });
  startPlayer();
  paths.setStep(0);
}

function startPlayer() {
  const button = byId("play");
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "▶ Play";
  };
  button.addEventListener("click", () => {
    if (timer) return stop();
    if (paths.step >= D.paths.steps) paths.setStep(0);
    button.textContent = "❚❚ Pause";
    timer = setInterval(() => {
      paths.setStep(paths.step + 1);
      if (paths.step >= D.paths.steps) stop();
    }, 60);
  });
}
