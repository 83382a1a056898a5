// The numbers and densities of the selected branches.
import * as d3 from "./d3.min.js";
import { QUANTILES } from "./data.js";
import { addBar, addSwatch, count, number, percent } from "./marks.js";

// The greatest number of items with curves, and with quantiles and shares.
const MOST_CURVES = 12;
const MOST_LISTED = 8;

export function showItems(content, view, items) {
  const some = view.selected.size > 0;
  d3.select("#details-title").text(some ? "Selected branches" : "All populations");
  const notes = [];
  if (!some) notes.push("Select branches of the tree to see them alone.");
  if (items.length > MOST_CURVES) notes.push(`Densities show the first ${MOST_CURVES}.`);
  if (items.length > MOST_LISTED) notes.push(`Tables show the first ${MOST_LISTED}.`);
  d3.select("#details-note").text(notes.join(" "));
  const list = d3.select("#items").text("").append("ul").attr("class", "items");
  for (const item of items) {
    const entry = list.append("li");
    addSwatch(entry, item.colour);
    entry.append("bdi").text(item.title);
    const share = percent(item.size / content.size(1));
    entry.append("span").attr("class", "note").text(`${count(item.size)}, ${share}`);
  }
}

// ---- densities ----------------------------------------------------------------------------------

const CURVE_WIDTH = 150;
const CURVE_HEIGHT = 84;
const CURVE_FOOT = 18;

export function showDensities(content, items) {
  const figures = d3.select("#densities").text("").selectAll("figure")
    .data(content.columns).join("figure");
  figures.append("figcaption").attr("title", (name) => name).text((name) => name);
  const names = items.slice(0, MOST_CURVES).map((item) => item.title).join(", ");
  figures.append("svg").attr("viewBox", `0 0 ${CURVE_WIDTH} ${CURVE_HEIGHT}`).attr("role", "img")
    .attr("aria-label", (name) => `Density of ${name}: all cells, ${names}`)
    .each(function draw(name, column) {
      drawDensity(d3.select(this), content, column, items.slice(0, MOST_CURVES));
    });
}

function drawDensity(svg, content, column, items) {
  const [low, high] = content.range(column);
  const across = d3.scaleLinear([low, high], [8, CURVE_WIDTH - 10]);
  const base = CURVE_HEIGHT - CURVE_FOOT;
  const width = (high - low) / content.steps;
  const middle = (step) => across(low + width * (step + 0.5));
  const heights = (branches) => {
    const density = content.density(branches, column);
    const mode = Math.max(...density);
    return density.map((value) => base - (base - 3) * value / mode);
  };
  svg.append("path").attr("class", "all")
    .attr("d", d3.area((y, step) => middle(step), base, (y) => y)(heights([1])));
  for (const item of items) {
    svg.append("path").attr("class", item.colour ? "curve" : "curve plain")
      .attr("stroke", item.colour)
      .attr("stroke-dasharray", item.colour ? null : "3 2")
      .attr("d", d3.line((y, step) => middle(step), (y) => y)(heights(item.branches)));
  }
  svg.append("g").attr("transform", `translate(0,${base})`)
    .call(d3.axisBottom(across).ticks(4).tickSize(3).tickPadding(2));
}

// ---- tables -------------------------------------------------------------------------------------

// A table of texts. `columns` are items or texts; a row is an array of a heading and cells.
function addTable(node, caption, columns) {
  const table = node.append("table");
  table.append("caption").text(caption);
  const head = table.append("thead").append("tr");
  head.append("td");
  for (const column of columns) {
    const cell = head.append("th").attr("scope", "col");
    if (column.branches) addSwatch(cell, column.colour);
    cell.append("bdi").text(column.title ?? column);
  }
  return table.append("tbody");
}

export function showNumbers(content, items) {
  const shown = items.slice(0, MOST_LISTED);
  const all = { title: "all cells", colour: null, branches: [1], size: content.size(1) };
  const columns = [all, ...shown.filter((item) => item.branches[0] !== 1)];
  const isApproximate = columns.some((item) => item.branches.length > 1);
  const body = addTable(d3.select("#numbers").text(""),
    `Median (${QUANTILES[0]} to ${QUANTILES[QUANTILES.length - 1]})${isApproximate
      ? "; about, for merged branches" : ""}`, columns);
  content.columns.forEach((name, column) => {
    const row = body.append("tr");
    row.append("th").attr("scope", "row").append("bdi").text(name);
    for (const item of columns) {
      const at = content.unionQuantiles(item.branches, column);
      const about = item.branches.length > 1 ? "\u2248\u2009" : "";
      row.append("td").text(`${about}${number(at[2])} (${number(at[0])} to ${number(at[4])})`);
    }
  });
}

export function showShares(content, items) {
  const node = d3.select("#shares").text("");
  const shown = items.slice(0, MOST_LISTED);
  if (content.gates) addShares(node, content, shown, "gates");
  if (content.samples) addShares(node, content, shown, "samples");
}

// The shares of gates in each item, or of each item in the samples.
function addShares(node, content, items, kind) {
  const of = content[kind];
  const isGate = kind === "gates";
  node.append("h3").text(isGate ? "Gates" : "Samples");
  const counts = items.map((item) => content.counts(of, item.branches));
  const totals = content.counts(of, [1]);
  const share = (i, label) => {
    const whole = isGate ? d3.sum(counts[i]) : totals[label];
    return whole > 0 ? counts[i][label] / whole : 0;
  };
  const most = isGate ? 1 : d3.max(items, (item, i) => d3.max(of.labels, (it, l) => share(i, l)));
  const box = node.append("section").attr("class", "scroll").attr("tabindex", 0)
    .attr("aria-label", isGate ? "Gates" : "Samples");
  const body = addTable(box, isGate ? "Share of each gate in the branch"
    : "Share of the branch in each sample", items);
  of.labels.forEach((label, l) => {
    const row = body.append("tr");
    row.append("th").attr("scope", "row").append("bdi").text(label);
    items.forEach((item, i) => {
      const cell = row.append("td");
      addBar(cell, most > 0 ? share(i, l) / most : 0, item.colour);
      cell.append("span").text(percent(share(i, l)));
    });
  });
}
