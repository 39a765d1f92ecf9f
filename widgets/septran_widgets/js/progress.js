// The widget around something long: a bar, the time that is left, a button that cancels.
import {tag, refill} from "./dom.js";
import {count, short} from "./numbers.js";
import {widgetOf} from "./widget.js";

const WORDS = { running: "running", done: "done", cancelled: "cancelled", failed: "failed" };

function clock(seconds) {
  if (seconds < 60) return `${seconds < 10 ? short(Number(seconds.toFixed(1))) : Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

function view(root, data, onSelect, model) {
  if (!root.sepProgress) root.sepProgress = build(root, model);
  root.sepProgress(data);
}

/** Built once and then changed, so that focus stays on the button. */
function build(root, model) {
  const bar = tag("progress", { class: "sep-progress" });
  const state = tag("span", { class: "sep-state", role: "status" });
  const numbers = tag("span", { class: "sep-note sep-progress-numbers" });
  const note = tag("div", { class: "sep-note" });
  const title = tag("span", { class: "sep-title" });
  const button = tag("button", { class: "sep-button", type: "button" }, "cancel");
  button.addEventListener("click", () => {
    button.disabled = true;
    button.textContent = "cancelling";
    model.send({ cancel: true });
  });
  refill(root, tag("div", { class: "sep-head" }, title, state, tag("span", { class: "sep-spring" }), numbers, button), bar, note);
  return (data) => {
    const running = data.state === "running";
    title.textContent = data.title;
    bar.setAttribute("aria-label", data.title);
    if (data.total === null && running) bar.removeAttribute("value");
    else { bar.max = data.total || Math.max(1, data.done); bar.value = data.done; }
    if (state.textContent !== WORDS[data.state]) state.textContent = WORDS[data.state];
    state.className = `sep-state sep-state-${data.state}`;
    const of = data.total === null ? count(data.done) : `${count(data.done)} of ${count(data.total)}`;
    numbers.textContent = `${of} · ${clock(data.seconds)}${data.left === null ? "" : ` · ${clock(data.left)} left`}`;
    const counts = Object.entries(data.counts).map(([kind, n]) => `${kind}: ${n}`);
    note.textContent = [data.error, data.note, ...counts].filter(Boolean).join(" · ");
    button.hidden = !running;
  };
}

export default { render: widgetOf("sep-progress-view", view) };
