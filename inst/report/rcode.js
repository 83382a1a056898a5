// The R calls that make the populations of a state.
import { populationsOf, rowsOf } from "./state.js";

const LINE_WIDTH = 80;

// The calls, as text.
export function codeOf(content, state) {
  const populations = populationsOf(content, state);
  if (populations.length === 0) return "# All branches are left out: there is no population.\n";
  const { tree, x } = content.code;
  const lines = [
    "library(gmhclust)",
    "populations <- cut_populations(",
    `  ${[tree, x].filter((it) => it).join(", ")}, min_members = ${content.least},`,
    ...chosen(content, state, populations),
    ")",
  ];
  const names = populations.filter((it) => it.name)
    .map((it) => `${quoted(it.name)} = ${it.number}`);
  if (names.length > 0) {
    lines.push("populations <- name_populations(populations, c(", ...filled(names, "  "), "))");
  }
  lines.push(
    "# Another tree would have populations of other sizes.",
    "stopifnot(identical(as.double(attr(populations, \"sizes\")), c(",
    ...filled(populations.map((it) => String(it.size)), "  "), ")))");
  return `${lines.join("\n")}\n`;
}

// The lines with the argument that chooses the populations.
function chosen(content, state, populations) {
  if (isTop(content, state, populations)) return [`  k = ${populations.length}`];
  const ids = populations.map((it) => it.branches.map(content.id));
  const isPlain = ids.every((it) => it.length === 1);
  const items = ids.map((it) => (it.length === 1 ? String(it[0]) : `c(${it.join(", ")})`));
  return [`  branches = ${isPlain ? "c" : "list"}(`, ...filled(items, "    "), "  )"];
}

// Whether the populations are those after the first splits from the top.
function isTop(content, state, populations) {
  if (populations.some((it) => it.branches.length > 1)) return false;
  const rows = rowsOf(content, state);
  const open = rows.filter((row) => row.isOpen);
  return open.length + 1 === populations.length && open.every(
    ({ branch }) => content.splits.number[content.splitOf(branch) - 1] <= open.length);
}

// Items with commas, in lines of a width.
function filled(items, indent) {
  const lines = [];
  let line = indent;
  items.forEach((item, i) => {
    const text = i + 1 < items.length ? `${item}, ` : item;
    if (line !== indent && line.length + text.trimEnd().length > LINE_WIDTH) {
      lines.push(line.trimEnd());
      line = indent;
    }
    line += text;
  });
  return [...lines, line.trimEnd()];
}

// Control characters, spaces other than the common one, and marks that cannot be seen.
const HIDDEN = /(?! )[\p{Cc}\p{Cf}\p{Z}]/gu;

// A text as R reads it. Hidden letters are written by their numbers.
export function quoted(text) {
  return `"${text.replace(/[\\"]/g, "\\$&").replace(HIDDEN, (letter) => {
    const digits = letter.codePointAt(0).toString(16);
    return `\\${digits.length > 4 ? "U" : "u"}{${digits}}`;
  })}"`;
}
