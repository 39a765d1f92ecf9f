// Program texts in colours: which part of each line is a keyword, a string, a number, a comment.

const PYTHON = "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield";
const C = "auto break case char const continue default do double else enum extern float for goto if inline int long register return short signed sizeof static struct switch typedef union unsigned void volatile while bool int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t half __global__ __device__ __shared__ __restrict__ extern template typename constexpr namespace using";
const TILE = "program on in out buffer channel scalar of as at for range parallel unrolled over stages by copy acquire commit wait release barrier role with registers task leaf launch";

const STRING = String.raw`"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?`;
const NUMBER = String.raw`(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w])`;
const WORD = String.raw`[A-Za-z_]\w*`;
const END = String.raw`(?![\s\S])`; // of the text: with the flag m, $ is the end of any line
const TRIPLE = String.raw`"""[\s\S]*?(?:"""|${END})|'''[\s\S]*?(?:'''|${END})`;

const LANGUAGES = {
  python: { comment: String.raw`#[^\n]*|(?:with )?T\.attr\(\{"origin"[^\n]*|T\.call_extern\("\w+", "septran_note"[^\n]*`, string: `${TRIPLE}|${STRING}`, extra: String.raw`@[\w.]+`, words: PYTHON },
  tile: { comment: "#[^\\n]*", string: STRING, words: TILE },
  yaml: { comment: "(?<=^|[\\s])#[^\\n]*", string: STRING, extra: String.raw`![\w]+|[\w*"'.-]+(?=:(?:\s|$))`, words: "true false null" },
  resolved: { comment: String.raw`\[[^\]\n]*:\d+[^\]\n]*\]`, string: STRING, words: "proc mems tunables binding rounded layouts copy order persistent cluster raster overlap turns pipeline warpspecialize roles consumers registers by as" },
  c: { comment: String.raw`\/\*[\s\S]*?(?:\*\/|${END})|\/\/[^\n]*`, string: STRING, extra: String.raw`^[ \t]*#[ \t]*\w+`, words: C },
  asm: { comment: String.raw`#[^\n]*|;[^\n]*|\/\/[^\n]*`, string: STRING, extra: String.raw`^\s*\.\w+|%\w+`, words: "" },
};
LANGUAGES.cuda = LANGUAGES.hip = LANGUAGES.c;
LANGUAGES.llvm = LANGUAGES.asm;

const made = new Map();
function rules(language) {
  if (!made.has(language)) {
    const of = LANGUAGES[language];
    if (!of) return null;
    const parts = [`(?<comment>${of.comment})`, `(?<string>${of.string})`];
    if (of.extra) parts.push(`(?<extra>${of.extra})`);
    parts.push(`(?<number>${NUMBER})`, `(?<word>${WORD})`);
    made.set(language, { pattern: new RegExp(parts.join("|"), "gm"), words: new Set(of.words.split(" ")) });
  }
  return made.get(language);
}

/** For each line of `text` a list of [start, end, kind], in order. */
export function coloured(text, language) {
  const lines = text.split("\n");
  const found = lines.map(() => []);
  const rule = rules(language);
  if (!rule) return found;
  let line = 0, begin = 0;
  for (const match of text.matchAll(rule.pattern)) {
    const kind = kindOf(match, rule.words);
    if (!kind) continue;
    let at = match.index;
    while (begin + lines[line].length < at) { begin += lines[line].length + 1; line += 1; }
    const end = at + match[0].length;
    while (at < end) {
      const stop = Math.min(end, begin + lines[line].length);
      if (stop > at) found[line].push([at - begin, stop - begin, kind]);
      if (stop === end) break;
      begin += lines[line].length + 1; line += 1; at = begin;
    }
  }
  return found;
}

function kindOf(match, words) {
  const { comment, string, extra, number, word } = match.groups;
  if (comment) return "comment";
  if (string) return "string";
  if (extra) return "extra";
  if (number) return "number";
  return word && words.has(word) ? "keyword" : null;
}
