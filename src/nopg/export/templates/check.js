// Rows of (observation, past, is first) in, lines of (found, action, past) out; then the time.
const policy = require("./policy.js");
const [n, nObservations, width] = process.argv.slice(2).map(Number);
const bytes = require("fs").readFileSync(0);
const numbers = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
const begun = process.hrtime.bigint();
const told = Array.from({ length: n }, (_, i) => {
  const row = [...numbers.subarray(i * width, (i + 1) * width)];
  const state = policy.start();
  if (!row[width - 1]) state.past = row.slice(nObservations, -1);
  const { action, found } = policy.act(state, row.slice(0, nObservations));
  return [["ok", "far", "refused"].indexOf(found), ...[action].flat(), ...state.past].join(" ");
});
const seconds = Number(process.hrtime.bigint() - begun) / 1e9 / n;
console.log(told.join("\n"));
console.error(seconds);
