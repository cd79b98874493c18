// Rows of (observation, past, is first) in, rows of (found, action, past) out.
const policy = require("./policy.js");
const { rows, nObservations } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const begun = process.hrtime.bigint();
const told = rows.map((row) => {
  const state = policy.start();
  if (!row[row.length - 1]) state.past = row.slice(nObservations, -1);
  const { action, found } = policy.act(state, row.slice(0, nObservations));
  return [["ok", "far", "refused"].indexOf(found), ...[action].flat(), ...state.past];
});
const seconds = Number(process.hrtime.bigint() - begun) / 1e9 / rows.length;
console.log(JSON.stringify({ told, seconds }));
