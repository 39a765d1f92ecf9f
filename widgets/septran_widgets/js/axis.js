// One horizontal axis of time that several drawings share: zoom, pan, ticks.

/** An axis over 0..end, `width` pixels wide; `changed` is called after every move. */
export class Axis {
  constructor(end, changed) {
    this.end = Math.max(end, 1e-12);
    this.changed = changed;
    this.width = 100;
    this.fit();
  }

  fit() { this.from = 0; this.to = this.end; this.changed(); }

  x(time) { return ((time - this.from) / (this.to - this.from)) * this.width; }

  time(x) { return this.from + (x / this.width) * (this.to - this.from); }

  /** Zoom by `factor` (below 1 is closer) so that the time at `x` stays where it is. */
  zoom(factor, x = this.width / 2) {
    const at = this.time(x);
    const least = Math.min(this.end, this.end / 1e6 + 8e-12);
    const span = Math.min(this.end, Math.max(least, (this.to - this.from) * factor));
    this.show(at - (x / this.width) * span, at - (x / this.width) * span + span);
  }

  /** Pan by pixels. */
  pan(pixels) {
    const time = (pixels / this.width) * (this.to - this.from);
    this.show(this.from + time, this.to + time);
  }

  /** Show from..to, moved to lie inside of the whole. */
  show(from, to) {
    const span = Math.min(this.end, to - from);
    this.from = Math.min(Math.max(0, from), this.end - span);
    this.to = this.from + span;
    this.changed();
  }

  /** Bring from..to into sight without zooming out more than needed. */
  reveal(from, to) {
    if (from >= this.from && to <= this.to) return;
    const span = Math.max(this.to - this.from, (to - from) * 1.2);
    this.show((from + to) / 2 - span / 2, (from + to) / 2 + span / 2);
  }

  /** Round times, about one for every 110 pixels. */
  ticks() {
    const rough = (this.to - this.from) / Math.max(2, this.width / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const found = [];
    for (let n = Math.ceil(this.from / step); n * step <= this.to; n += 1) found.push(n * step);
    return found;
  }
}
