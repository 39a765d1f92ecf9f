// Which words differ between lines that a pass took out and those that it wrote in their place.
const WORD = /\w+|\s+|[^\w\s]/g;
const ALIKE = 0.5;

/** `lines` are [sign, text], signs 0 equal, 1 added, 2 removed; gives [start, end] of each line's changed words. */
export function changedWords(lines) {
  const found = lines.map(() => []);
  for (let at = 0; at < lines.length; at += 1) {
    if (lines[at][0] === 0) continue;
    const start = at;
    while (at < lines.length && lines[at][0] !== 0) at += 1;
    pairs(lines, start, at).forEach(([gone, come]) => {
      [found[gone], found[come]] = compared(lines[gone][1], lines[come][1]);
    });
  }
  return found;
}

/** Removed and added lines of one place that are alike, each once and in their order. */
function pairs(lines, start, end) {
  const numbers = [...Array(end - start).keys()].map((n) => n + start);
  const come = numbers.filter((n) => lines[n][0] === 1);
  const found = [];
  let next = 0;
  for (const gone of numbers.filter((n) => lines[n][0] === 2)) {
    const match = come.findIndex((n, k) => k >= next && likeness(lines[gone][1], lines[n][1]) >= ALIKE);
    if (match < 0) continue;
    found.push([gone, come[match]]);
    next = match + 1;
  }
  return found;
}

function likeness(one, other) {
  const [a, b] = [one, other].map((text) => text.match(/\w+/g) || []);
  const left = new Map();
  for (const word of b) left.set(word, (left.get(word) || 0) + 1);
  const shared = a.filter((word) => left.get(word) > 0 && left.set(word, left.get(word) - 1));
  return (2 * shared.length) / Math.max(1, a.length + b.length);
}

/** What is not in the longest common row of words. */
function compared(one, other) {
  const [a, b] = [one, other].map((text) => text.match(WORD) || []);
  const long = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      long[i][j] = a[i] === b[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
    }
  }
  const [left, right] = [a.map(() => true), b.map(() => true)];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { left[i] = false; right[j] = false; i += 1; j += 1; }
    else if (long[i + 1][j] >= long[i][j + 1]) i += 1;
    else j += 1;
  }
  return [ranges(a, left), ranges(b, right)];
}

function ranges(words, changed) {
  const found = [];
  let at = 0;
  words.forEach((word, n) => {
    const last = found[found.length - 1];
    if (changed[n] && last && last[1] === at) last[1] += word.length;
    else if (changed[n]) found.push([at, at + word.length]);
    at += word.length;
  });
  return found;
}
