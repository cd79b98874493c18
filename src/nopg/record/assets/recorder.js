// The connection: one ticket to get in, controls out, status and pictures back.

import { Input } from "./input.js";
import { View } from "./view.js";

const MALFORMED = 4400, NO_TICKET = 4401, TAKEN = 4409, ENDED = 4410;
const TALK_MS = 250; // the recorder holds the episode when the page falls silent
const SILENCE_MS = 3000;
const RECONNECT_MS = 1000;
const STORE = "nopg-record-ticket"; // session storage: this tab and this port only

const view = new View();
const input = new Input(command, talk);
let socket = null;
let heard = 0;

function takeTicket() {
  const given = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (given) {
    sessionStorage.setItem(STORE, given);
    history.replaceState(null, "", location.pathname); // used up: keep it out of bookmarks
  }
  return sessionStorage.getItem(STORE) ?? "";
}

function send(message) {
  if (socket?.readyState === WebSocket.OPEN && heard) socket.send(JSON.stringify(message));
}

function command(name) {
  send({ type: "command", name });
}

function talk() {
  view.pressed(input.keys);
  send(input.message());
}

function connect() {
  heard = 0;
  socket = new WebSocket(`ws://${location.host}/link`);
  socket.binaryType = "arraybuffer";
  socket.addEventListener("open", () => socket.send(JSON.stringify({ type: "hello", ticket: takeTicket() })));
  socket.addEventListener("message", ({ data }) => receive(data));
  socket.addEventListener("close", ({ code }) => closed(code));
}

function receive(data) {
  heard = performance.now();
  if (typeof data !== "string") {
    view.picture(data);
    return;
  }
  const message = JSON.parse(data);
  if (message.type === "welcome") {
    sessionStorage.setItem(STORE, message.ticket);
    input.drive(message.kind, message.levers.map((lever) => lever.name));
    view.welcome(message, input.map);
  } else {
    view.status(message);
  }
}

function closed(code) {
  if (code === ENDED) {
    if (view.phase !== "finished") {
      view.offline("stopped", "The recorder has stopped", "Finished episodes are saved; the terminal says where.");
    }
  } else if (code === NO_TICKET) {
    view.offline("refused", "This address was used already", "Open the newest address in the terminal; it works once.");
  } else if (code === TAKEN) {
    view.offline("refused", "Another tab is driving", "Close the other tab; this one takes over by itself.");
    setTimeout(connect, RECONNECT_MS);
  } else {
    const why = code === MALFORMED ? "The recorder did not understand this page. " : "";
    view.offline("lost", "Connection lost", `${why}The episode is held. Trying again; is the recorder still running?`);
    setTimeout(connect, RECONNECT_MS);
  }
}

for (const button of document.querySelectorAll("button[data-command]")) {
  button.addEventListener("click", () => {
    command(button.dataset.command);
    document.getElementById("stage").focus(); // so that Space drives, and no button fires
  });
}

function watchGamepad() {
  if (input.poll()) {
    view.gamepad(input.pad.name);
    talk();
  }
  requestAnimationFrame(watchGamepad);
}

setInterval(() => {
  talk();
  if (heard && performance.now() - heard > SILENCE_MS && socket.readyState === WebSocket.OPEN) {
    view.offline("lost", "Connection lost", "The recorder does not answer.");
  }
}, TALK_MS);

document.getElementById("stage").focus();
watchGamepad();
connect();
