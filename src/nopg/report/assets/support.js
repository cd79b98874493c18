// Histograms of how well the predicted visits are known.

function drawHistogram(host, bars, { name, unit, limit, isGoodBelow, ticks }) {
  const most = Math.max(...bars.share);
  const isGood = (i) => (isGoodBelow ? bars.edges[i] < limit : bars.edges[i] >= limit);
  const frame = new Frame(host, {
    height: 220,
    label: `${name}: share of the predicted visits.`,
    ticks,
    draw(pen) {
      bars.share.forEach((share, i) => {
        const left = frame.px(bars.at[i]) + 1, right = frame.px(bars.at[i + 1]) - 1;
        pen.fillStyle = ink(isGood(i) ? "accent" : "warm");
        pen.fillRect(left, frame.py(share), Math.max(1, right - left), frame.py(0) - frame.py(share));
      });
      const x = frame.px(bars.limitAt);
      pen.strokeStyle = ink("muted");
      pen.setLineDash([4, 4]);
      pen.beginPath();
      pen.moveTo(x, frame.plot.top);
      pen.lineTo(x, frame.plot.bottom);
      pen.stroke();
      pen.setLineDash([]);
    },
    pick(at, event) {
      const i = bars.at.findIndex((v, k) => at.x >= v && at.x < bars.at[k + 1]);
      if (i < 0 || i >= bars.share.length) return tip.hide();
      const top = i === bars.share.length - 1 && bars.isOpen ? "more" : format(bars.edges[i + 1], 2);
      tip.show(event, [[name, `${format(bars.edges[i], 2)} to ${top}${unit}`], ["of the visits", `${format(100 * bars.share[i], 3)} %`]]);
    },
  });
  frame.x = [bars.at[0], bars.at.at(-1)];
  frame.y = [0, most * 1.08 || 1];
  frame.xAxis = { name, label: bars.label };
  frame.yAxis = { label: (v) => `${format(100 * v, 2)}%` };
  frame.redraw();
}

function startSupport() {
  const { distance, effective, reach, few } = D.support;
  const far = { ...distance, at: distance.edges, limitAt: reach, isOpen: true };
  far.label = (v) => (v >= distance.edges.at(-1) ? `${format(v)}+` : format(v));
  drawHistogram(byId("distance"), far, {
    name: "nearest logged row, bandwidths", unit: "", limit: reach, isGoodBelow: true,
  });
  const log = { ...effective, at: effective.edges.map(Math.log2), limitAt: Math.log2(few), isOpen: true };
  log.label = (v) => (Number.isInteger(v) ? format(2 ** v) : "");
  drawHistogram(byId("effective"), log, {
    name: "rows a prediction rests on", unit: "", limit: few, isGoodBelow: false,
    ticks: { x: Math.ceil(log.at.at(-1)) },
  });
}
