// A frame: SVG for axes and words, a canvas over it for many points, marks on top.

function niceTicks(low, high, count, isAngle) {
  if (isAngle && high - low > 2) {
    const step = high - low > 3.2 && count < 5 ? Math.PI : Math.PI / 2;
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9; k++) ticks.push(k * step);
    return { ticks, label: pi };
  }
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(k * step);
  if (ticks.length < 3 && count < 12) return niceTicks(low, high, count + 1, isAngle);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0));
  const isPlain = Math.max(Math.abs(low), Math.abs(high)) < 1e5 && digits < 5;
  return { ticks, label: (v) => (isPlain ? v.toFixed(digits).replace("-", "−") : format(v, 3)) };
}

class Frame {
  constructor(host, { height, aspect, label, draw, pick, leave, zoom, ticks = {} }) {
    Object.assign(this, { host, height, aspect, draw, pick, leave, zoom, ticks });
    host.classList.add("frame");
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.svg = make("svg", { role: "img", "aria-label": label });
    this.marks = make("svg", { "aria-hidden": "true", class: "marks" });
    this.dots = make("svg", { "aria-hidden": "true", class: "dots" });
    host.replaceChildren(this.svg, this.canvas, this.dots, this.marks);
    this.x = [0, 1];
    this.y = [0, 1];
    this.xAxis = {};
    this.yAxis = {};
    this.listen();
    new ResizeObserver(() => {
      if (host.clientWidth && host.clientWidth !== this.width) this.redraw();
    }).observe(host);
    redraws.push(() => this.redraw());
  }

  get plot() {
    const left = this.left ?? 46;
    return { left, top: this.yAxis.name ? 22 : 8, right: this.width - 10, bottom: this.tall - (this.xAxis.name ? 38 : 22) };
  }

  px(v) {
    const p = this.plot;
    return p.left + ((v - this.x[0]) / (this.x[1] - this.x[0])) * (p.right - p.left);
  }

  py(v) {
    const p = this.plot;
    return p.bottom - ((v - this.y[0]) / (this.y[1] - this.y[0])) * (p.bottom - p.top);
  }

  at(event) {
    const box = this.host.getBoundingClientRect(), p = this.plot;
    const px = event.clientX - box.left, py = event.clientY - box.top;
    const sx = (px - p.left) / (p.right - p.left), sy = (p.bottom - py) / (p.bottom - p.top);
    const isInside = sx >= 0 && sx <= 1 && sy >= 0 && sy <= 1;
    return {
      px, py, isInside,
      x: this.x[0] + sx * (this.x[1] - this.x[0]),
      y: this.y[0] + sy * (this.y[1] - this.y[0]),
    };
  }

  redraw() {
    this.width = this.host.clientWidth;
    if (!this.width) return;
    this.tall = this.aspect ? Math.min(Math.round(this.width * this.aspect), this.height) : this.height;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.tall * scale);
    this.host.style.height = `${this.tall}px`;
    for (const svg of [this.svg, this.dots, this.marks]) {
      svg.setAttribute("viewBox", `0 0 ${this.width} ${this.tall}`);
      svg.replaceChildren();
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, this.width, this.tall);
    this.axes();
    const p = this.plot;
    pen.save();
    pen.beginPath();
    pen.rect(p.left, p.top, p.right - p.left, p.bottom - p.top);
    pen.clip();
    this.draw(pen, this);
    pen.restore();
  }

  axes() {
    const p = this.plot, svg = this.svg;
    const nx = this.ticks.x ?? Math.max(2, Math.round((p.right - p.left) / 90));
    const ny = this.ticks.y ?? Math.max(2, Math.round((p.bottom - p.top) / 55));
    const along = niceTicks(...this.x, nx, this.xAxis.angle);
    for (const v of along.ticks) {
      const x = this.px(v);
      svg.append(make("line", { class: "grid", x1: x, x2: x, y1: p.top, y2: p.bottom }));
      const anchor = x > p.right - 8 ? "end" : x < p.left + 8 ? "start" : "middle";
      svg.append(make("text", { x, y: p.bottom + 15, "text-anchor": anchor, text: (this.xAxis.label ?? along.label)(v) }));
    }
    const up = niceTicks(...this.y, ny, this.yAxis.angle);
    for (const v of up.ticks) {
      const y = this.py(v);
      svg.append(make("line", { class: "grid", x1: p.left, x2: p.right, y1: y, y2: y }));
      svg.append(make("text", { x: p.left - 6, y: y + 4, "text-anchor": "end", text: (this.yAxis.label ?? up.label)(v) }));
    }
    if (this.yAxis.name) {
      svg.append(make("text", { class: "name", x: 4, y: 12, text: `↑ ${this.yAxis.name}` }));
    }
    if (this.xAxis.name) {
      svg.append(make("text", { class: "name", x: (p.left + p.right) / 2, y: p.bottom + 32, "text-anchor": "middle", text: this.xAxis.name }));
    }
  }

  mark(x, y) {
    const p = this.plot;
    this.marks.replaceChildren();
    if (x === null) return;
    const px = this.px(x);
    if (px >= p.left && px <= p.right) this.marks.append(make("line", { class: "cross", x1: px, x2: px, y1: p.top, y2: p.bottom }));
    if (y === null || y === undefined) return;
    const py = this.py(y);
    if (py < p.top || py > p.bottom) return;
    this.marks.append(make("line", { class: "cross", x1: p.left, x2: p.right, y1: py, y2: py }));
    this.marks.append(make("circle", { class: "cross", cx: px, cy: py, r: 5 }));
  }

  listen() {
    const host = this.host;
    let from = null;
    host.addEventListener("pointermove", (event) => {
      const at = this.at(event);
      if (from && Math.hypot(at.px - from.px, at.py - from.py) > 6) return this.lasso(from, at);
      if (at.isInside && this.pick) this.pick(at, event);
      else this.away();
    });
    host.addEventListener("pointerdown", (event) => {
      const at = this.at(event);
      if (this.zoom && event.pointerType === "mouse" && event.button === 0 && at.isInside) {
        from = at;
        host.setPointerCapture(event.pointerId);
      }
      if (at.isInside && this.pick) this.pick(at, event);
    });
    host.addEventListener("pointerup", (event) => {
      const at = this.at(event);
      if (from && Math.hypot(at.px - from.px, at.py - from.py) > 6) {
        const sorted = (a, b, [low, high]) => [Math.max(low, Math.min(a, b)), Math.min(high, Math.max(a, b))];
        this.marks.replaceChildren();
        this.zoom(sorted(from.x, at.x, this.x), sorted(from.y, at.y, this.y));
      }
      from = null;
    });
    host.addEventListener("dblclick", () => this.zoom && this.zoom(null, null));
    host.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.away());
  }

  lasso(from, at) {
    tip.hide();
    this.marks.replaceChildren(
      make("rect", {
        class: "lasso",
        x: Math.min(from.px, at.px), y: Math.min(from.py, at.py),
        width: Math.abs(at.px - from.px), height: Math.abs(at.py - from.py),
      }),
    );
  }

  away() {
    tip.hide();
    this.mark(null);
    if (this.leave) this.leave();
  }
}

function wide([low, high], room = 0.06) {
  const span = high - low || Math.abs(high) * 0.1 || 1;
  return [low - room * span, high + room * span];
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return low <= high ? [low, high] : [0, 1];
}

function polyline(pen, frame, xs, ys) {
  let isDown = false;
  pen.beginPath();
  for (let i = 0; i < xs.length; i++) {
    if (Number.isNaN(ys[i]) || ys[i] === null) {
      isDown = false;
      continue;
    }
    const x = frame.px(xs[i]), y = frame.py(ys[i]);
    if (isDown) pen.lineTo(x, y);
    else pen.moveTo(x, y);
    isDown = true;
  }
  pen.stroke();
}
