// Everything the page shows. Text goes in as text, never as markup.

const GLYPHS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };
const BADGES = {
  ready: "Ready", running: "Recording", paused: "Paused", saved: "Saved",
  unsaved: "Not saved", finished: "Finished", lost: "Offline", refused: "Offline", stopped: "Stopped",
};
const TOGGLES = { ready: "Start", running: "Pause", paused: "Go on", saved: "Next episode", unsaved: "Try saving again" };
const ENABLED = {
  toggle: ["ready", "running", "paused", "saved", "unsaved"],
  keep: ["running", "paused"],
  retry: ["running", "paused", "saved", "unsaved"],
  discard: ["running", "paused", "saved", "unsaved"],
  quit: ["ready", "saved"],
};

const MANY_LEVERS = 2; // beyond these the lists are set more tightly
const MANY_COLUMNS = 6;

const byId = (id) => document.getElementById(id);
const minus = (text) => text.replace("-", "−");
const figure = (value) => (value === null ? "–" : minus(value.toFixed(Math.abs(value) < 10 ? 3 : 1)));

function element(tag, className, ...children) {
  const node = document.createElement(tag);
  node.className = className;
  node.append(...children);
  return node;
}

function keycap(code) {
  const cap = element("kbd", "", GLYPHS[code] ?? code.replace(/^(Key|Digit)/, ""));
  cap.dataset.key = code;
  return cap;
}

export class View {
  constructor() {
    this.levers = [];
    this.columns = [];
    this.canvas = byId("picture");
    this.context = this.canvas.getContext("2d");
    this.phase = "connecting";
    this.next = null; // the picture to draw
  }

  /** Show what there is to drive, with the keys of `map`. */
  welcome(message, map) {
    byId("environment").textContent = message.environment;
    byId("file").textContent = message.file;
    byId("wanted").textContent = message.wanted ? ` of ${message.wanted}` : "";
    byId("limit").textContent = message.limit ? ` / ${message.limit}` : "";
    document.title = `${message.environment} · nopg record`;
    this.setup = message;
    this.map = map;
    const make = message.kind === "continuous" ? this.axis : this.label;
    this.levers = message.levers.map(make, this);
    byId("levers").replaceChildren(...this.levers.map((lever) => lever.node));
    byId("levers").classList.toggle("many", this.levers.length > MANY_LEVERS);
    byId("columns").classList.toggle("many", message.columns.length > MANY_COLUMNS);
    this.columns = message.columns.map((name) => {
      const value = element("output", "", "–");
      return { value, node: element("li", "", element("span", "", name), value) };
    });
    byId("columns").replaceChildren(...this.columns.map((column) => column.node));
  }

  keysOf(bound) {
    return Object.keys(this.map).filter((key) => String(this.map[key]) === String(bound));
  }

  axis({ name, low, high }, index) {
    const [down, plus] = [this.keysOf([index, -1]), this.keysOf([index, 1])];
    const value = element("output", "", "0");
    const bar = element("i", "");
    const zero = element("b", "");
    const rest = Math.min(Math.max(0, low), high);
    const place = (x) => (100 * (x - low)) / (high - low);
    zero.style.left = `${place(rest)}%`;
    const title = element("header", "", element("span", "", name), value);
    const keys = (codes, side) => element("span", `keys ${side}`, ...codes.map(keycap));
    const track = element("div", "track", bar, zero);
    const node = element("li", "axis", title, keys(down, "down"), track, keys(plus, "up"));
    const show = (x) => {
      const [from, to] = [place(Math.min(x, rest)), place(Math.max(x, rest))];
      bar.style.left = `${from}%`;
      bar.style.width = `${to - from}%`;
      value.textContent = minus(x.toFixed(2));
    };
    show(rest);
    return { node, show, rest };
  }

  label({ name }, index) {
    const keys = this.keysOf(index).map(keycap);
    const node = element("li", "label", name, element("span", "", ...keys));
    const show = (chosen) => node.classList.toggle("chosen", chosen === index);
    return { node, show, rest: null };
  }

  status(message) {
    this.phase = message.phase;
    this.root(message.phase, message.complete);
    const ongoing = ["ready", "running", "paused", "unsaved"].includes(message.phase);
    byId("episode").textContent = message.saved + (ongoing ? 1 : 0);
    byId("time").textContent = (message.seconds ?? 0).toFixed(1);
    byId("step").textContent = message.step;
    byId("return").textContent = figure(message.return);
    byId("notice").textContent = message.notice;
    this.showAction(message.action);
    this.columns.forEach((column, i) => (column.value.textContent = figure(message.observation[i])));
    const episodes = `${message.saved} episode${message.saved === 1 ? "" : "s"}`;
    byId("tally").textContent = message.saved ? `${episodes} saved, ${message.transitions} transitions` : "Nothing saved yet";
    const slow = message.phase === "running" && message.rate < 0.85 * this.setup.fps;
    byId("rate").textContent = slow
      ? `Slow: ${message.rate.toFixed(0)} of ${this.setup.fps} steps per second`
      : `${this.setup.fps} steps per second`;
    byId("rate").classList.toggle("slow", slow);
    this.card(...this.text(message));
  }

  showAction(action) {
    this.levers.forEach((lever, i) => {
      if (this.setup.kind === "discrete") lever.show(action ? action[0] : null);
      else lever.show(action ? action[i] : lever.rest);
    });
  }

  text(message) {
    const last = `${message.step} steps, return ${figure(message.return)}: ${message.ending}.`;
    switch (message.phase) {
      case "ready": return ["Ready", "Press a driving key or Space to start."];
      case "paused": return ["Paused", "Space goes on, R starts again, Backspace discards."];
      case "saved": return [
        `Episode ${message.saved} saved`,
        `${last} Space ${message.complete ? "finishes the recording" : "starts the next"}, R or Backspace takes it back.`,
      ];
      case "unsaved": return ["Not saved", `${last} Space tries again, Backspace discards.`];
      case "finished": return [
        "Recording finished",
        message.saved
          ? `Everything is in ${this.setup.file}. To learn a policy from it, type in the terminal: nopg learn ${this.setup.file}`
          : "No episode was saved, so there is no file. You can close this tab.",
      ];
      default: return ["", ""]; // running: nothing in the way
    }
  }

  /** A card over the picture; no headline, no card. */
  card(headline, advice) {
    byId("veil").hidden = !headline;
    if (byId("headline").textContent !== headline) byId("headline").textContent = headline;
    if (byId("advice").textContent !== advice) byId("advice").textContent = advice;
  }

  /** The recorder is not there: say so over the last picture. */
  offline(phase, headline, advice) {
    this.phase = phase;
    this.root(phase);
    this.card(headline, advice);
  }

  root(phase, complete = false) {
    document.documentElement.dataset.phase = phase;
    const badge = byId("phase");
    if (badge.textContent !== BADGES[phase]) badge.textContent = BADGES[phase];
    const isLast = complete && phase === "saved"; // Space ends the recording now
    byId("toggle").firstElementChild.textContent = isLast ? "Finish" : TOGGLES[phase] ?? "Start";
    byId("quit").hidden = isLast; // one button of that name is enough
    for (const button of document.querySelectorAll("button[data-command]")) {
      button.disabled = !ENABLED[button.dataset.command].includes(phase);
    }
  }

  pressed(keys) {
    for (const cap of document.querySelectorAll("kbd[data-key]")) {
      cap.classList.toggle("down", keys.includes(cap.dataset.key));
    }
  }

  gamepad(name) {
    byId("gamepad").textContent = name ? `Gamepad: ${name}` : "A gamepad works too: press any of its buttons.";
  }

  /** Draw the newest picture; one that arrives while another is decoded replaces it. */
  async picture(data) {
    const isDrawing = this.next !== null;
    this.next = data;
    if (isDrawing) return;
    while (this.next !== null) {
      const current = this.next;
      await this.draw(current);
      if (this.next === current) this.next = null;
    }
  }

  async draw(data) {
    const bitmap = await createImageBitmap(new Blob([data], { type: "image/jpeg" }));
    if (this.canvas.width !== bitmap.width || this.canvas.height !== bitmap.height) {
      this.canvas.width = bitmap.width;
      this.canvas.height = bitmap.height;
    }
    this.context.drawImage(bitmap, 0, 0);
    bitmap.close();
  }
}
