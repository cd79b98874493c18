// Which key does what, and what the hands do: a level of each axis, or a label.

// Four crosses of keys, each with a horizontal and a vertical (minus, plus).
const CROSSES = [
  [["ArrowLeft", "ArrowRight"], ["ArrowDown", "ArrowUp"]],
  [["KeyA", "KeyD"], ["KeyS", "KeyW"]],
  [["KeyJ", "KeyL"], ["KeyK", "KeyI"]],
  [["KeyF", "KeyH"], ["KeyG", "KeyT"]],
];
const SYNONYMS = { ArrowLeft: "KeyA", ArrowRight: "KeyD", ArrowDown: "KeyS", ArrowUp: "KeyW" };
// The arrow of a label, by the first word of its name.
const ARROWS = { left: "ArrowLeft", right: "ArrowRight", down: "ArrowDown", up: "ArrowUp", main: "ArrowUp" };
// Buttons of the W3C "standard" gamepad: face buttons and direction pad.
const PAD = {
  0: "Digit0", 1: "Digit1", 2: "Digit2", 3: "Digit3",
  12: "ArrowUp", 13: "ArrowDown", 14: "ArrowLeft", 15: "ArrowRight",
};
const DEAD_ZONE = 0.12; // stick positions nearer to the centre than this are noise
const STICK_AS_KEY = 0.5; // beyond this a stick counts as a pressed arrow, for labels
const MOST_AXES = 8;

/** Keys of an action with n axes, as [axis, direction] of each.
 *
 *  One or two axes: the arrows and W, A, S, D do the same. More: the arrows drive the first two,
 *  W, A, S, D the next two, then I, J, K, L and T, F, G, H. A single axis listens to the vertical
 *  keys as well, up for plus. */
export function axisKeys(n) {
  const two = CROSSES.slice(0, 2);
  let pairs = CROSSES.flat().slice(0, n).map((pair, axis) => [axis, pair]);
  if (n === 1) pairs = two.flat().map((pair) => [0, pair]);
  if (n === 2) pairs = two.flatMap((cross) => cross.map((pair, axis) => [axis, pair]));
  return Object.fromEntries(
    pairs.flatMap(([axis, [minus, plus]]) => [[minus, [axis, -1]], [plus, [axis, 1]]])
  );
}

/** Keys of discrete actions: numbers for the first ten, arrows where they fit.
 *
 *  A label called left, right, up or down is on that arrow; without such names the outer ones of
 *  two or three are left and right. W, A, S, D follow the arrows. */
export function labelKeys(names) {
  let arrows = names.flatMap((name, label) => {
    const arrow = ARROWS[name.split(" ")[0]];
    return arrow ? [[arrow, label]] : [];
  });
  if (!arrows.length && (names.length === 2 || names.length === 3)) {
    arrows = [["ArrowLeft", 0], ["ArrowRight", names.length - 1]];
  }
  const letters = arrows.map(([key, label]) => [SYNONYMS[key], label]);
  const numbers = names.slice(0, 10).map((_, label) => [`Digit${label}`, label]);
  return Object.fromEntries([...arrows, ...letters, ...numbers]);
}

/** The keys, with number pad, direction pad and face buttons as keys too. */
function digital({ keys, buttons }) {
  const pressed = buttons.filter((button) => button in PAD).map((button) => PAD[button]);
  return [...keys.map((key) => key.replace("Numpad", "Digit")), ...pressed];
}

/** Deflection for one axis: right and up are plus, 0 inside the dead zone, no jump where it ends. */
function stick(axes, axis) {
  const push = (axis % 2 ? -1 : 1) * (axes[axis] ?? 0);
  return (Math.sign(push) * Math.max(0, Math.abs(push) - DEAD_ZONE)) / (1 - DEAD_ZONE);
}

/** How far each of n axes is pushed, from -1 to 1. */
export function levels(map, n, hands) {
  const pushed = digital(hands).filter((key) => key in map).map((key) => map[key].join());
  const found = Array.from({ length: Math.min(n, MOST_AXES) }, (_, axis) => stick(hands.axes, axis));
  for (const push of new Set(pushed)) { // two keys of one push are one push
    const [axis, sign] = push.split(",").map(Number);
    found[axis] += sign;
  }
  return found.map((level) => Math.max(-1, Math.min(1, level)));
}

/** The label of the key pressed last, or null. */
export function chosen(map, hands) {
  const [x = 0, y = 0] = hands.axes;
  const pushes = { ArrowLeft: -x, ArrowRight: x, ArrowUp: -y, ArrowDown: y };
  const sticks = Object.keys(pushes).filter((key) => pushes[key] > STICK_AS_KEY);
  const labels = [...sticks, ...digital(hands)].filter((key) => key in map).map((key) => map[key]);
  return labels.length ? labels[labels.length - 1] : null;
}
