// The page: keeps the state with its history, and shows it after each step.
import * as d3 from "./d3.min.js";
import { contentOf } from "./data.js";
import {
  beginning, cleanName, closed, leftOut, merged, mostNumber, named, nameProblem, opened, openedTo,
  populationsOf, rowsOf, separated, stateOf, textOf,
} from "./state.js";
import { codeOf } from "./rcode.js";
import { count, itemsOf, percent } from "./marks.js";
import { actionOfKey, showHead, showLegend, showTree } from "./tree.js";
import { showDensities, showItems, showNumbers, showShares } from "./details.js";
import { prepareScatter, showScatter } from "./scatter.js";
import { showBands } from "./bands.js";

const content = contentOf(document.getElementById("content").textContent);
const past = [];
const future = [];
let state = stateOfAddress() ?? beginning(content);
let current = 1;
const selected = new Set();

// ---- state --------------------------------------------------------------------------------------

function stateOfAddress() {
  if (location.hash.length < 2) return null;
  try {
    return stateOf(content, decodeURIComponent(location.hash.slice(1)));
  } catch {
    return null;
  }
}

function keepInAddress() {
  try {
    history.replaceState(null, "", `#${encodeURIComponent(textOf(state))}`);
  } catch {
    // A browser may refuse addresses of this length or kind; then a reload begins again.
  }
}

function viewOf() {
  const rows = rowsOf(content, state);
  const branches = new Set(rows.map((row) => row.branch));
  for (const branch of selected) if (!branches.has(branch)) selected.delete(branch);
  while (!branches.has(current)) current = content.parent(current);
  const populations = populationsOf(content, state);
  const populationOf = new Map();
  for (const it of populations) for (const branch of it.branches) populationOf.set(branch, it);
  return { state, rows, populations, populationOf, selected, current };
}

// Goes to another state, which can be undone, and says so.
function step(next, message) {
  if (textOf(next) === textOf(state)) {
    say(message);
    return;
  }
  past.push(state);
  future.length = 0;
  state = next;
  keepInAddress();
  show();
  say(message);
}

function back(from, to, message) {
  if (from.length === 0) return;
  to.push(state);
  state = from.pop();
  keepInAddress();
  show();
  say(message);
}

function say(message) {
  d3.select("#message").text(message);
}

// ---- what is shown ------------------------------------------------------------------------------

let view = viewOf();

d3.select("#about-support").attr("hidden", content.hasSupport ? null : true);
d3.select("#tree-box").classed("with-support", content.hasSupport);

function show() {
  view = viewOf();
  const total = content.size(1);
  const inside = view.populations.reduce((sum, it) => sum + it.size, 0);
  const k = view.populations.length;
  d3.select("#summary").text(`${count(content.cells)} cells, ${content.columns.length} columns, `
    + `${k} population${k === 1 ? "" : "s"} of at least ${count(content.least)} members.`);
  d3.select("#outside").text(`In no population: ${count(total - inside)} members, `
    + `${percent((total - inside) / total)}.`);
  showTree(content, view, actions);
  showBands(content, view, openTo);
  d3.select("#code").text(codeOf(content, state));
  showSelection();
}

// Redraws what depends on the selection.
function showSelection() {
  d3.selectAll("#tree .row")
    .attr("aria-selected", (row) => String(selected.has(row.branch)));
  const items = itemsOf(content, view);
  showItems(content, view, items);
  showDensities(content, items);
  showScatter(content, items);
  showNumbers(content, items);
  showShares(content, items);
  showTools();
}

function showTools() {
  const populations = selectedPopulations();
  const rows = selectedRows();
  d3.select("#toggle").property("disabled", !rows.some((row) => row.canOpen))
    .text(rows.length > 0 && rows.every((row) => row.isOpen) ? "Close" : "Open");
  d3.select("#merge").property("disabled", populations.length < 2);
  d3.select("#separate").property("disabled", !populations.some((it) => it.branches.length > 1));
  const ends = rows.filter((row) => !row.isOpen);
  d3.select("#leave").property("disabled", ends.length === 0)
    .text(ends.length > 0 && ends.every((row) => state.out.has(row.branch)) ? "Take in"
      : "Leave out");
  d3.select("#undo").property("disabled", past.length === 0);
  d3.select("#redo").property("disabled", future.length === 0);
  d3.select("#name-form").selectAll("input, button").property("disabled", populations.length === 0);
  if (document.activeElement !== document.getElementById("name")) {
    d3.select("#name").property("value", populations.length === 1 ? populations[0].name : "");
  }
  d3.select("#number").property("value", view.populations.length);
}

const selectedRows = () => view.rows.filter((row) => selected.has(row.branch));

// The populations of the selected branches, each once.
function selectedPopulations() {
  const found = selectedRows().map((row) => view.populationOf.get(row.branch)).filter((it) => it);
  return [...new Set(found)];
}

// ---- actions ------------------------------------------------------------------------------------

const actions = {
  pick(branch, event) {
    if (event.shiftKey) selectBetween(current, branch);
    else if (event.ctrlKey || event.metaKey) switchOne(branch);
    else selectOnly([branch]);
    actions.focus(branch);
  },
  focus(branch) {
    actions.setCurrent(branch);
    d3.selectAll("#tree .row").filter((row) => row.branch === branch).node()?.focus();
  },
  setCurrent(branch) {
    current = branch;
    view.current = branch;
    d3.selectAll("#tree .row").attr("tabindex", (row) => (row.branch === branch ? 0 : -1));
  },
  switchSelected(branch) {
    switchOne(branch);
  },
  selectAll() {
    selectOnly(view.rows.filter((row) => view.populationOf.has(row.branch))
      .map((row) => row.branch));
  },
  selectNone() {
    selectOnly([]);
  },
  toggle(branch) {
    if (content.splitOf(branch) === 0) {
      say("This branch has no split with enough members on both sides.");
      return;
    }
    const isOpen = state.open.has(branch);
    // The parts of a branch that was opened are compared with each other.
    selected.clear();
    for (const it of isOpen ? [branch] : content.children(branch)) selected.add(it);
    step(isOpen ? closed(content, state, branch) : opened(content, state, branch),
      isOpen ? "Closed." : "Opened.");
    actions.focus(branch);
  },
  startName() {
    if (selectedPopulations().length === 0 && view.populationOf.has(current)) {
      selectOnly([current]);
    }
    if (selectedPopulations().length === 0) {
      say("Only populations have names: close the branch, or take it in.");
      return;
    }
    const input = document.getElementById("name");
    input.focus();
    input.select();
  },
  merge() {
    const populations = selectedPopulations();
    if (populations.length < 2) {
      say("Select two or more populations to merge them.");
      return;
    }
    step(merged(state, populations), `Merged ${populations.length} populations.`);
  },
  separate() {
    const populations = selectedPopulations().filter((it) => it.branches.length > 1);
    if (populations.length === 0) {
      say("Select a merged population to separate it.");
      return;
    }
    step(separated(state, populations), "Separated.");
  },
  leaveOut() {
    const ends = selectedRows().filter((row) => !row.isOpen).map((row) => row.branch);
    if (ends.length === 0) {
      say("Select branches that are not open to leave them out.");
      return;
    }
    const areOut = ends.every((branch) => state.out.has(branch));
    step(leftOut(state, ends), areOut ? "Taken in." : "Left out.");
  },
};

function selectOnly(branches) {
  selected.clear();
  for (const branch of branches) selected.add(branch);
  showSelection();
}

function switchOne(branch) {
  if (selected.has(branch)) selected.delete(branch);
  else selected.add(branch);
  showSelection();
}

function selectBetween(from, to) {
  const at = [from, to].map((branch) => view.rows.findIndex((row) => row.branch === branch));
  const [first, last] = [Math.min(...at), Math.max(...at)];
  selectOnly(view.rows.slice(first, last + 1).map((row) => row.branch));
}

function openTo(number) {
  const most = mostNumber(content);
  if (!Number.isInteger(number) || number < 1 || number > most) {
    say(`The number must be from 1 to ${most}.`);
    return;
  }
  step(openedTo(content, state, number), `Opened to ${number} population${number > 1 ? "s" : ""}.`);
}

function setName() {
  const populations = selectedPopulations();
  const name = cleanName(document.getElementById("name").value);
  const problem = nameProblem(name);
  if (populations.length === 0 || problem) {
    say(problem || "Select a population to name it.");
    return;
  }
  const others = view.populations.filter((it) => it.name === name && !populations.includes(it));
  const isMerge = name !== "" && populations.length + others.length > 1;
  const next = populations.length > 1 && name === "" ? merged(state, populations)
    : named(state, populations.flatMap((it) => it.branches), name);
  step(next, name === "" ? "The name was taken away."
    : isMerge ? `Merged as ${name}.` : `Named ${name}.`);
  actions.focus(current);
}

async function copyCode() {
  const text = document.getElementById("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    getSelection().selectAllChildren(document.getElementById("code"));
    say("The browser does not allow copying: the code is selected, press Ctrl-C.");
  }
}

// ---- begin --------------------------------------------------------------------------------------

function onKey(event) {
  const isText = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  const letter = event.key.toLowerCase();
  if ((event.ctrlKey || event.metaKey) && !isText && (letter === "z" || letter === "y")) {
    event.preventDefault();
    if (letter === "y" || event.shiftKey) back(future, past, "Redone.");
    else back(past, future, "Undone.");
    return;
  }
  if (event.target.closest?.("#tree") === null) return;
  const action = actionOfKey(event, content, view, actions);
  if (action) {
    event.preventDefault();
    action();
  }
}

function listen(id, action) {
  d3.select(id).on("click", action);
}

function begin() {
  showHead(content);
  showLegend(content);
  prepareScatter(content, view.populations, () => showScatter(content, itemsOf(content, view)));
  d3.select("#number").attr("max", mostNumber(content));
  listen("#toggle", () => selectedRows().filter((row) => row.canOpen).slice(0, 1)
    .forEach((row) => actions.toggle(row.branch)));
  listen("#merge", actions.merge);
  listen("#separate", actions.separate);
  listen("#leave", actions.leaveOut);
  listen("#undo", () => back(past, future, "Undone."));
  listen("#redo", () => back(future, past, "Redone."));
  listen("#copy", copyCode);
  d3.select("#name-form").on("submit", (event) => {
    event.preventDefault();
    setName();
  });
  d3.select("#number-form").on("submit", (event) => {
    event.preventDefault();
    openTo(Number(d3.select("#number").property("value")));
  });
  d3.select(document).on("keydown", onKey);
  d3.select(window).on("hashchange", () => {
    const next = stateOfAddress();
    if (next) step(next, "The state of the address.");
  });
  show();
}

begin();
