// The tree: a row for each branch, with its size and the medians of its columns.
import * as d3 from "./d3.min.js";
import { addBar, addSwatch, colourOf, count, number, percent } from "./marks.js";

// Levels that are indented by a full step; deeper ones by a small step.
const FULL_STEPS = 6;

export function showHead(content) {
  const head = d3.select("#tree-head");
  d3.select("#tree-box").style("--columns", content.columns.length);
  head.append("span").attr("class", "branch").text("Branch");
  head.append("span").attr("class", "members").text("Members");
  const names = head.append("span").attr("class", "column-names");
  for (const name of content.columns) {
    names.append("span").attr("class", "column-name").attr("title", name).text(name);
  }
}

// The colours of medians.
export function showLegend(content) {
  const legend = d3.select("#legend");
  legend.append("span").text("Medians: 1st percentile");
  const svg = legend.append("svg").attr("viewBox", "0 0 50 10").attr("aria-hidden", "true")
    .attr("preserveAspectRatio", "none");
  for (let step = 0; step < 50; step++) {
    svg.append("rect").attr("x", step).attr("width", 1.1).attr("height", 10)
      .attr("fill", content.medianColour(step / 49));
  }
  legend.append("span").text("99th percentile of all cells, for each column");
}

const shareOf = (content, branch) => content.size(branch) / content.size(1);

// The members of an open branch that are in none of its parts.
export function lostAt(content, branch) {
  return content.children(branch).reduce((rest, part) => rest - content.size(part),
    content.size(branch));
}

export function showTree(content, view, actions) {
  const rows = d3.select("#tree").selectAll(".row").data(view.rows, (row) => row.branch)
    .join((enter) => enter.append((row) => newRow(content, row, actions)))
    .order();
  rows.attr("aria-level", (row) => row.level)
    .attr("aria-posinset", (row) => row.position)
    .attr("aria-setsize", (row) => row.of)
    .attr("aria-expanded", (row) => (row.canOpen ? String(row.isOpen) : null))
    .attr("aria-selected", (row) => String(view.selected.has(row.branch)))
    .attr("tabindex", (row) => (row.branch === view.current ? 0 : -1))
    .classed("open", (row) => row.isOpen)
    .classed("out", (row) => view.state.out.has(row.branch) && !row.isOpen);
  rows.select(".branch").style("padding-left", (row) => `${indent(row.level)}rem`);
  rows.select(".twisty").text((row) => (row.isOpen ? "\u25be" : row.canOpen ? "\u25b8" : ""));
  rows.each(function fill(row) {
    fillName(d3.select(this).select(".name"), content, view, row);
  });
}

function indent(level) {
  const full = Math.min(level - 1, FULL_STEPS);
  return 0.2 + 0.6 * full + 0.1 * (level - 1 - full);
}

function newRow(content, row, actions) {
  const { branch } = row;
  const node = d3.create("div").attr("class", "row").attr("role", "treeitem")
    .attr("data-branch", branch)
    .on("click", (event) => actions.pick(branch, event))
    .on("dblclick", () => actions.startName())
    .on("focus", () => actions.setCurrent(branch));
  const cell = node.append("span").attr("class", "branch");
  cell.append("span").attr("class", "twisty").attr("aria-hidden", "true")
    .on("click", (event) => {
      event.stopPropagation();
      actions.toggle(branch);
    });
  cell.append("span").attr("class", "name");
  const members = node.append("span").attr("class", "members");
  addBar(members, shareOf(content, branch));
  members.append("span").text(count(content.size(branch)))
    .append("span").attr("class", "spoken")
    .text(` members, ${percent(shareOf(content, branch))}`);
  addMedians(node, content, branch);
  return node.node();
}

// The name of a row. Text of class `spoken` is for screen readers alone.
function fillName(node, content, view, row) {
  const { branch } = row;
  const population = view.populationOf.get(branch);
  node.text("");
  const add = (kind, text) => node.append(kind === "text" ? "bdi" : "span").attr("class", kind)
    .text(text);
  if (population) {
    addSwatch(node, colourOf(content, population));
    add("spoken", "population ");
    add("number", population.number);
    if (population.name) add("text", population.name).attr("title", population.name);
    if (population.branches.length > 1) add("note", "merged");
    addMeasures(add, content, branch);
    return;
  }
  const name = view.state.label.get(branch);
  if (!row.isOpen) addSwatch(node, null);
  if (name) add("text", name).attr("title", name);
  else add("spoken", branch === 1 ? "all cells" : `branch ${content.id(branch)}`);
  const lost = row.isOpen ? lostAt(content, branch) : 0;
  if (!row.isOpen) add("note", "left out");
  else if (lost > 0) add("note", `${count(lost)} in none`);
  addMeasures(add, content, branch);
}

// The support of a branch, and the depth of the valley between its two parts.
function addMeasures(add, content, branch) {
  const support = content.support(branch);
  if (support !== null) add("note support", `support ${Math.round(100 * support)}%`);
  const valley = content.splits.valley[content.splitOf(branch) - 1];
  if (typeof valley === "number") add("note valley", `valley ${valley.toFixed(2)}`);
}

function addMedians(node, content, branch) {
  const p = content.columns.length;
  const svg = node.append("svg").attr("class", "medians").attr("viewBox", `0 0 ${p} 1`)
    .attr("preserveAspectRatio", "none").attr("aria-hidden", "true");
  const title = svg.append("title");
  content.columns.forEach((name, column) => {
    svg.append("rect").attr("x", column).attr("width", 1.02).attr("height", 1)
      .attr("fill", content.medianColour(content.unit(content.median(branch, column), column)));
  });
  svg.on("pointermove", (event) => {
    const column = Math.min(Math.max(Math.floor(d3.pointer(event, svg.node())[0]), 0), p - 1);
    title.text(`${content.columns[column]}: ${number(content.median(branch, column))}`);
  });
}

// ---- keys ---------------------------------------------------------------------------------------

// The action of a key in the tree; null for none.
export function actionOfKey(event, content, view, actions) {
  const at = view.rows.findIndex((row) => row.branch === view.current);
  const row = view.rows[at];
  const go = (index) => () => actions.focus(view.rows[index].branch);
  const last = view.rows.length - 1;
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return event.key === "a" && !event.altKey ? () => actions.selectAll() : null;
  }
  switch (event.key) {
    case "ArrowDown": return go(Math.min(at + 1, last));
    case "ArrowUp": return go(Math.max(at - 1, 0));
    case "Home": return go(0);
    case "End": return go(last);
    case "ArrowRight":
      if (row.isOpen) return go(at + 1);
      return row.canOpen ? () => actions.toggle(row.branch) : () => {};
    case "ArrowLeft":
      if (row.isOpen) return () => actions.toggle(row.branch);
      return row.level > 1 ? () => actions.focus(content.parent(row.branch)) : () => {};
    case "Enter": return () => actions.toggle(row.branch);
    case " ": return () => actions.switchSelected(row.branch);
    case "Escape": return () => actions.selectNone();
    case "n": case "N": case "F2": return () => actions.startName();
    case "m": case "M": return () => actions.merge();
    case "u": case "U": return () => actions.separate();
    case "x": case "X": case "Delete": return () => actions.leaveOut();
    default: return null;
  }
}
