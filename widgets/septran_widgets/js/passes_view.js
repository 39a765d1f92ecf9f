// The tile program pass by pass: what each one wrote and took out.
import {changedWords} from "./changed_words.js";
import {coloured} from "./colouring.js";
import {tag, unique} from "./dom.js";

/** `passes` is {texts, steps}; rows of a step are [sign, text, set] by number, flat. */
export class PassesView {
  constructor(passes, focus, label) {
    this.passes = passes;
    this.focus = focus;
    this.at = 0;
    const id = unique("passes");
    this.choice = tag("select", { id, "aria-label": "pass", onchange: () => this.show(this.choice.selectedIndex) },
      passes.steps.map((step, n) => tag("option", {}, `${n + 1}. ${step.name}${changes(step)}`)));
    this.back = tag("button", { class: "sep-button", type: "button", "aria-label": "previous pass", onclick: () => this.show(this.at - 1) }, "‹");
    this.next = tag("button", { class: "sep-button", type: "button", "aria-label": "next pass", onclick: () => this.show(this.at + 1) }, "›");
    this.note = tag("span", { class: "sep-note", "aria-live": "polite" });
    this.body = tag("div", { class: "sep-code sep-diff", tabindex: "0", role: "group", "aria-label": `${label}: what the pass changed` });
    this.element = tag("div", { class: "sep-passes" },
      tag("div", { class: "sep-passes-bar" }, this.back, this.choice, this.next, this.note), this.body);
    this.body.addEventListener("pointerover", (event) => this.over(event));
    this.body.addEventListener("pointerleave", () => focus.point([], null));
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.show(Math.max(0, passes.steps.findLastIndex((step) => step.added + step.removed > 0)));
  }

  show(n) {
    this.at = Math.min(Math.max(n, 0), this.passes.steps.length - 1);
    const step = this.passes.steps[this.at];
    this.choice.selectedIndex = this.at;
    this.back.disabled = this.at === 0;
    this.next.disabled = this.at === this.passes.steps.length - 1;
    this.note.textContent = step.added + step.removed ? step.summary : `${step.summary} Nothing to do here.`;
    this.focus.forget(this.body);
    const rows = [];
    const words = [];
    for (let i = 0; i < step.rows.length; i += 3) words.push([step.rows[i], this.passes.texts[step.rows[i + 1]]]);
    const changed = changedWords(words);
    for (let i = 0; i < step.rows.length; i += 3) rows.push(this.row(...step.rows.slice(i, i + 3), changed[i / 3]));
    this.body.replaceChildren(...rows);
    const first = rows.findIndex((row) => row.classList.contains("sep-added") || row.classList.contains("sep-removed"));
    this.body.scrollTop = first > 0 ? rows[first].offsetTop - 40 : 0;
  }

  row(sign, number, set, words) {
    const text = this.passes.texts[number];
    const kind = ["sep-same", "sep-added", "sep-removed"][sign];
    const line = tag("div", { class: `sep-code-line ${kind}`, "data-n": " +−"[sign] });
    line.sets = set ? [set] : [];
    const colours = coloured(text, "tile")[0];
    const ends = [0, text.length, ...colours.flatMap(([start, end]) => [start, end]), ...words.flat()];
    const cuts = [...new Set(ends)].sort((a, b) => a - b);
    const within = (at, spans) => spans.find(([start, end]) => start <= at && at < end);
    for (let n = 0; n + 1 < cuts.length; n += 1) {
      const [piece, colour] = [text.slice(cuts[n], cuts[n + 1]), within(cuts[n], colours)];
      const names = [colour && `sep-c-${colour[2]}`, within(cuts[n], words) && "sep-changed"].filter(Boolean);
      line.append(names.length ? tag("span", { class: names.join(" ") }, piece) : piece);
    }
    this.focus.register(line, set);
    return line;
  }

  over(event) {
    const line = event.target.closest(".sep-code-line");
    if (line) this.focus.point(line.sets, line);
  }

  click(event) {
    const line = event.target.closest(".sep-code-line");
    if (line && !String(getSelection())) this.focus.hold(line.sets, line);
  }

  key(event) {
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      this.show(this.at + (event.key === "ArrowRight" ? 1 : -1));
      event.preventDefault();
    }
  }

  get text() {
    return [...this.body.children].map((line) => `${line.dataset.n.trim().padEnd(1)} ${line.textContent}`).join("\n");
  }

  lit() { return [...this.body.querySelectorAll(".sep-lit")]; }

  follow() {}
}

function changes(step) {
  const parts = [step.added && `+${step.added}`, step.removed && `−${step.removed}`].filter(Boolean);
  return parts.length ? `  ${parts.join(" ")}` : "";
}
