// The timeline by keyboard: from bar to bar, and closer or further away.

const STEP = 0.25;

/** Act on a key that was pressed in the plot. */
export function timelineKeys(event, state, axis) {
  const act = ACTIONS[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  act(state, axis, event);
  event.preventDefault();
  event.stopPropagation();
}

const ACTIONS = {
  ArrowRight: (state, axis, event) => (event.shiftKey ? axis.pan(axis.width * STEP) : step(state, axis, 1)),
  ArrowLeft: (state, axis, event) => (event.shiftKey ? axis.pan(-axis.width * STEP) : step(state, axis, -1)),
  ArrowDown: (state, axis) => lane(state, axis, 1),
  ArrowUp: (state, axis) => lane(state, axis, -1),
  Home: (state, axis) => edge(state, axis, 0),
  End: (state, axis) => edge(state, axis, -1),
  "+": (state, axis) => axis.zoom(0.5, anchor(state, axis)),
  "=": (state, axis) => axis.zoom(0.5, anchor(state, axis)),
  "-": (state, axis) => axis.zoom(2, anchor(state, axis)),
  0: (state, axis) => axis.fit(),
  Enter: (state, axis) => whole(state, axis),
  Escape: (state) => state.choose(null),
};

function anchor(state, axis) {
  const bar = state.chosen;
  if (!bar) return axis.width / 2;
  const x = axis.x((bar.start + bar.end) / 2);
  return x >= 0 && x <= axis.width ? x : axis.width / 2;
}

function pick(state, axis, bar) {
  if (!bar) return;
  axis.reveal(bar.start, bar.end);
  state.choose(bar);
}

function step(state, axis, way) {
  const bar = state.chosen;
  if (!bar) return pick(state, axis, firstSeen(state.lanes[0], axis.from));
  const bars = bar.lane.bars;
  return pick(state, axis, bars[bars.indexOf(bar) + way]);
}

function lane(state, axis, way) {
  const bar = state.chosen;
  if (!bar) return pick(state, axis, firstSeen(state.lanes[0], axis.from));
  for (let n = bar.lane.number + way; state.lanes[n]; n += way) {
    const found = firstSeen(state.lanes[n], (bar.start + bar.end) / 2);
    if (found) return pick(state, axis, found);
  }
  return undefined;
}

function firstSeen(one, time) {
  if (!one || !one.bars.length) return null;
  return one.bars.find((bar) => bar.end > time) || one.bars[one.bars.length - 1];
}

function edge(state, axis, at) {
  const one = state.chosen ? state.chosen.lane : state.lanes[0];
  if (one) pick(state, axis, one.bars.at(at));
}

function whole(state, axis) {
  const bar = state.chosen;
  if (!bar) return;
  const span = (bar.end - bar.start) * 1.5;
  const middle = (bar.start + bar.end) / 2;
  axis.show(middle - span / 2, middle + span / 2);
}
