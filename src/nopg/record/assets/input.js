// Keyboard and gamepad: what is pressed right now, and the keys that are commands.

import { axisKeys, chosen, labelKeys, levels } from "./keymap.js";

const COMMANDS = { Space: "toggle", Enter: "keep", KeyR: "retry", Backspace: "discard", Escape: "hold" };
const GAMEPAD_COMMANDS = { 8: "retry", 9: "toggle" }; // back and start
const SCROLLING = /^(Arrow|Space|Backspace|Page)/;
const PRESSED = 0.5;
const MAX_KEYS = 16;

export class Input {
  /** @param onCommand called with the name of a command
   *  @param onChange called when the set of pressed keys changes */
  constructor(onCommand, onChange) {
    this.keys = [];
    this.map = {}; // what each key does, once the recorder has said what there is to drive
    this.pad = { axes: [], buttons: [], name: "" };
    this.onCommand = onCommand;
    this.onChange = onChange;
    window.addEventListener("keydown", (event) => this.down(event));
    window.addEventListener("keyup", (event) => this.up(event));
    window.addEventListener("blur", () => this.letGo());
    document.addEventListener("visibilitychange", () => document.hidden && this.letGo());
  }

  /** Learn what there is to drive: axes, or labels with names. */
  drive(kind, names) {
    this.kind = kind;
    this.nAxes = names.length;
    this.map = kind === "continuous" ? axisKeys(names.length) : labelKeys(names);
  }

  down(event) {
    // Combinations belong to the browser, typing and buttons to the focused element.
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const onButton = event.target instanceof HTMLButtonElement;
    if (onButton && (event.code === "Space" || event.code === "Enter")) return;
    if (SCROLLING.test(event.code)) event.preventDefault();
    if (event.repeat) return;
    const command = COMMANDS[event.code];
    if (command) {
      this.onCommand(command);
    } else if (/^[A-Za-z0-9]{1,24}$/.test(event.code) && this.keys.length < MAX_KEYS) {
      this.keys = [...this.keys.filter((key) => key !== event.code), event.code];
      this.onChange();
    }
  }

  up(event) {
    if (!this.keys.includes(event.code)) return;
    this.keys = this.keys.filter((key) => key !== event.code);
    this.onChange();
  }

  /** Without the focus no key-up arrives: let everything go, and hold the episode. */
  letGo() {
    this.keys = [];
    this.onChange();
    this.onCommand("hold");
  }

  /** Read the first gamepad, for which browsers have no events; say whether it moved. */
  poll() {
    const pad = Array.from(navigator.getGamepads?.() ?? []).find((one) => one?.connected);
    const buttons = pad ? [...pad.buttons.keys()].filter((i) => pad.buttons[i].value > PRESSED) : [];
    for (const [button, command] of Object.entries(GAMEPAD_COMMANDS)) {
      const index = Number(button);
      if (buttons.includes(index) && !this.pad.buttons.includes(index)) this.onCommand(command);
    }
    // Pads of an unknown layout may report triggers as axes that rest at an end.
    const sticks = pad ? pad.axes.slice(0, pad.mapping === "standard" ? 4 : 2) : [];
    const before = JSON.stringify(this.pad);
    this.pad = {
      axes: sticks.map((x) => Math.max(-1, Math.min(1, Math.round(100 * x) / 100 || 0))),
      buttons,
      name: pad ? pad.id : "",
    };
    return JSON.stringify(this.pad) !== before;
  }

  message() {
    const held = this.pad.buttons.filter((index) => !(index in GAMEPAD_COMMANDS));
    const hands = { keys: this.keys, axes: this.pad.axes, buttons: held };
    const isDiscrete = this.kind === "discrete";
    return {
      type: "controls",
      levels: isDiscrete ? [] : levels(this.map, this.nAxes ?? 0, hands),
      label: isDiscrete ? chosen(this.map, hands) : null,
    };
  }
}
