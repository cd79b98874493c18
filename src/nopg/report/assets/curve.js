// The learning curve: J with its certificate, and below it what was measured.

function drawCurve(host, series, name, updates) {
  const domain = () => updates;
  const all = () => {
    const [low, high] = extent(series.value.filter((v) => v !== null));
    return wide([low, high]);
  };
  const frame = new Frame(host, {
    height: series.isMain ? 280 : 170,
    label: `${name} by policy update: from ${format(series.value[0])} to ${format(series.value.at(-1))}.`,
    draw(pen) {
      if (series.band) drawBand(pen, frame, series);
      pen.strokeStyle = ink(series.isMain ? "accent" : "warm");
      pen.lineWidth = 2;
      pen.lineJoin = "round";
      polyline(pen, frame, series.step, series.value);
      if (series.step.length < 60) {
        pen.fillStyle = pen.strokeStyle;
        series.step.forEach((s, i) => {
          pen.beginPath();
          pen.arc(frame.px(s), frame.py(series.value[i]), 3, 0, 7);
          pen.fill();
        });
      }
    },
    pick(at, event) {
      let i = 0;
      series.step.forEach((s, k) => {
        if (Math.abs(s - at.x) < Math.abs(series.step[i] - at.x)) i = k;
      });
      frame.mark(series.step[i], series.value[i]);
      const rows = [["update", format(series.step[i], 6)], [name, format(series.value[i], 6)]];
      if (series.band) rows.push(["certain to", format(series.band[i], 2)]);
      tip.show(event, rows);
    },
    zoom(x, y) {
      [frame.x, frame.y] = x ? [x, y] : [domain(), all()];
      frame.redraw();
    },
  });
  frame.x = domain();
  frame.y = all();
  frame.left = 58;
  frame.xAxis = { name: series.hasName ? "policy update" : "" };
  frame.redraw();
}

function drawBand(pen, frame, series) {
  pen.fillStyle = ink("band");
  pen.beginPath();
  series.step.forEach((s, i) => pen.lineTo(frame.px(s), frame.py(series.value[i] + series.band[i])));
  for (let i = series.step.length - 1; i >= 0; i--) {
    pen.lineTo(frame.px(series.step[i]), frame.py(series.value[i] - series.band[i]));
  }
  pen.fill();
}

function startCurves() {
  const host = byId("curves");
  if (!host || !D.curve) return;
  const updates = [Math.min(0, D.curve.step[0]), D.curve.step.at(-1)];
  const panels = [{ ...D.curve, name: "J, estimated from the data", isMain: true }];
  for (const found of D.curve.evaluations) panels.push(found);
  panels.forEach((series, i) => {
    const plot = make("div");
    host.append(make("h3", { text: series.name }), plot);
    drawCurve(plot, { ...series, hasName: i === panels.length - 1 }, series.name, updates);
  });
}
