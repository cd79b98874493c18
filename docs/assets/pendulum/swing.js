/* The pendulum of the front page: Gymnasium's Pendulum-v1 with a mass of your choice and
 * a push from outside. The policy beside it was written by `nopg export --format js`. */
const pendulum = (() => {
  "use strict";
  const dt = 0.05, fastest = 8;

  const observe = ([angle, speed]) => [Math.cos(angle), Math.sin(angle), speed];

  /* One step of a rod of length 1 and this mass, pushed with so many N m. */
  function step([angle, speed], torque, mass = 1, push = 0) {
    const turned = speed + (15 * Math.sin(angle) + (3 / mass) * (torque + push)) * dt;
    const after = Math.min(Math.max(turned, -fastest), fastest);
    return [angle + after * dt, after];
  }

  const upright = ([angle]) => Math.cos(angle) > Math.cos(0.2);

  return { dt, observe, step, upright };
})();
if (typeof module !== "undefined") module.exports = pendulum;

if (typeof document !== "undefined") (() => {
  "use strict";
  const root = document.getElementById("swing");
  if (!root) return;
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const canvas = part("view"), pen = canvas.getContext("2d");
  const push = part("push"), mass = part("mass"), button = part("run");
  let state, before, memory, found, torque, steps, since;
  let running = !matchMedia("(prefers-reduced-motion: reduce)").matches;

  function restart() {
    state = before = [Math.PI, 0];
    memory = policy.start();
    found = "ok";
    torque = steps = since = 0;
  }

  function advance() {
    before = state;
    const answer = policy.act(memory, pendulum.observe(state));
    found = answer.found;
    torque = answer.action[0];
    state = pendulum.step(state, torque, Number(mass.value), Number(push.value));
    steps += 1;
    since = pendulum.upright(state) ? since + 1 : 0;
  }

  function say() {
    const seconds = (steps * pendulum.dt).toFixed(1);
    const up = since * pendulum.dt >= 1;
    part("time").textContent = `${seconds} s`;
    part("torque").textContent = `${torque.toFixed(2)} N m`;
    part("state").textContent = up ? "balanced" : "swinging";
    part("guard").textContent = found === "ok" ? "data are near" : "no data near";
    part("mass-value").textContent = `${Number(mass.value).toFixed(2)} kg`;
    part("push-value").textContent = `${Number(push.value).toFixed(1)} N m`;
    root.dataset.state = up ? "balanced" : "swinging";
  }

  function draw(share) {
    const ratio = window.devicePixelRatio || 1, side = canvas.clientWidth;
    if (canvas.width !== Math.round(side * ratio)) {
      canvas.width = canvas.height = Math.round(side * ratio);
    }
    const style = getComputedStyle(root);
    const ink = style.color, warm = style.getPropertyValue("--swing-warm");
    const angle = before[0] + share * (state[0] - before[0]);
    const long = 0.4 * side, wide = 0.02 * side * (1 + Number(mass.value));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, side, side);
    pen.translate(side / 2, side / 2);
    pen.lineCap = "round";
    pen.strokeStyle = warm;
    pen.lineWidth = 0.012 * side;
    pen.beginPath();
    const turn = (torque + Number(push.value)) * 0.5; /* half a radian per N m */
    pen.arc(0, 0, 0.12 * side, -Math.PI / 2, -Math.PI / 2 - turn, turn > 0);
    pen.stroke();
    pen.strokeStyle = ink;
    pen.lineWidth = wide;
    pen.beginPath();
    pen.moveTo(0, 0);
    pen.lineTo(-long * Math.sin(angle), -long * Math.cos(angle));
    pen.stroke();
    pen.fillStyle = warm;
    pen.beginPath();
    pen.arc(0, 0, 0.018 * side, 0, 2 * Math.PI);
    pen.fill();
  }

  let last = null, owed = 0;
  function frame(now) {
    if (running) {
      owed += last === null ? 0 : Math.min((now - last) / 1000, 0.2);
      for (; owed >= pendulum.dt; owed -= pendulum.dt) advance();
      say();
      draw(owed / pendulum.dt);
    }
    last = now;
    requestAnimationFrame(frame);
  }

  function name() {
    button.textContent = running ? "Pause" : "Run";
  }

  button.addEventListener("click", () => {
    running = !running;
    name();
  });
  part("restart").addEventListener("click", () => {
    restart();
    say();
    draw(1);
  });
  const release = () => {
    push.value = 0;
    say();
  };
  for (const event of ["change", "pointerup", "pointercancel", "blur"])
    push.addEventListener(event, release);
  restart();
  name();
  say();
  draw(1);
  requestAnimationFrame(frame);
})();
