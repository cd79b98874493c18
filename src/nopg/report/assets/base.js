// What every plot needs: the numbers of the page, formats, colours, the theme.

const D = JSON.parse(document.getElementById("numbers").textContent);

function floats(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

function make(tag, attributes = {}, ...children) {
  const isSvg = ["svg", "g", "path", "line", "rect", "text", "circle"].includes(tag);
  const node = isSvg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const byId = (id) => document.getElementById(id);

// ---- numbers in words ----

function format(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  let text;
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
    const [mantissa, power] = value.toExponential(2).split("e");
    const raised = String(Number(power)).replace(/./g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
    text = `${Number(mantissa)}·10${raised}`;
  } else {
    text = String(Number(value.toPrecision(digits)));
  }
  return text.replace(/-/g, "−");
}

function formatOn(axis, value) {
  if (!axis.angle) return format(value);
  return `${format(value, 3)} rad (${Math.round((value * 180) / Math.PI)}°)`.replace(/-/g, "−");
}

function pi(value) {
  const halves = Math.round((value / Math.PI) * 4);
  const words = { 0: "0", 1: "π/4", 2: "π/2", 3: "3π/4", 4: "π" };
  return (halves < 0 ? "−" : "") + (words[Math.abs(halves)] ?? format(value));
}

// ---- colours: lightness rises or falls steadily, so that grey prints read too ----

const RAMPS = {
  value: ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"],
  visits: ["#05030f", "#1d1147", "#51127c", "#832681", "#b73779", "#e75263", "#fc8961", "#fec488", "#fcfdbf"],
  action: ["#0b3c6f", "#2a6ea6", "#6fa6cc", "#b9d2e2", "#ece9e4", "#eec6a4", "#dd9257", "#b85f1c", "#6f3303"],
};
const LABELS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a6fdf", "#7a7a7a"];

function channels(hex) {
  const n = parseInt(hex.slice(1), 16);
  return [(n >> 16) & 255, (n >> 8) & 255, n & 255];
}

const ramps = Object.fromEntries(
  Object.entries(RAMPS).map(([name, stops]) => {
    const parts = stops.map(channels);
    const table = [];
    for (let i = 0; i < 256; i++) {
      const at = (i / 255) * (parts.length - 1);
      const k = Math.min(Math.floor(at), parts.length - 2);
      table.push(parts[k].map((c, j) => Math.round(c + (at - k) * (parts[k + 1][j] - c))));
    }
    return [name, table];
  }),
);

function shade(ramp, share) {
  const i = Math.round(255 * Math.min(1, Math.max(0, share)));
  return ramps[ramp][Number.isNaN(i) ? 0 : i];
}

const css = (rgb, alpha = 1) => `rgba(${rgb[0]},${rgb[1]},${rgb[2]},${alpha})`;

// ---- the theme: the system's until the reader chooses ----

const redraws = [];

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function redrawAll() {
  for (const redraw of redraws) redraw();
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  const isDark = theme
    ? theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  byId("theme").setAttribute("aria-pressed", String(isDark));
  redrawAll();
}

function startTheme() {
  let kept = null;
  try {
    kept = localStorage.getItem("nopg-report-theme");
  } catch { /* pages from a file may have no storage */ }
  setTheme(kept === "dark" || kept === "light" ? kept : null);
  byId("theme").addEventListener("click", () => {
    const isDark = byId("theme").getAttribute("aria-pressed") === "true";
    const theme = isDark ? "light" : "dark";
    try {
      localStorage.setItem("nopg-report-theme", theme);
    } catch { /* then it is for this visit only */ }
    setTheme(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!document.documentElement.dataset.theme) setTheme(null);
  });
}

// ---- one tooltip for all plots ----

const tip = {
  show(event, rows, title = "") {
    const box = byId("tip");
    box.replaceChildren();
    if (title) box.append(make("b", { text: title }));
    for (const [name, value, colour] of rows) {
      const cell = make("span", { text: name });
      if (colour) {
        const dot = make("i");
        dot.style.background = colour;
        cell.prepend(dot);
      }
      box.append(cell, make("em", { text: value }));
    }
    box.hidden = false;
    const width = box.offsetWidth, height = box.offsetHeight, gap = 16;
    const room = document.documentElement.clientWidth;
    let left = event.clientX + gap;
    if (left + width > room - 6) left = event.clientX - gap - width;
    let top = event.clientY + gap;
    if (top + height > innerHeight - 6) top = event.clientY - gap - height;
    box.style.left = `${Math.max(6, Math.min(left, room - width - 6))}px`;
    box.style.top = `${Math.max(6, top)}px`;
  },
  hide() {
    byId("tip").hidden = true;
  },
};
