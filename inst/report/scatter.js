// Two columns as a picture: the sample of all cells in grey, and the items in their colours.
import * as d3 from "./d3.min.js";

const SIDE = 360;
const LEFT = 48;
const FOOT = 40;
const TOP = 8;

// Two columns that show populations apart: the one whose medians vary most, and the one that varies
// most apart from it.
function telling(content, populations) {
  const medians = content.columns.map((name, column) => {
    const units = populations.map((it) => content.unit(
      content.unionQuantiles(it.branches, column)[2], column));
    const mean = d3.sum(units) / units.length;
    return units.map((unit) => unit - mean);
  });
  const product = (a, b) => d3.sum(a, (value, i) => value * b[i]);
  const variances = medians.map((it) => product(it, it));
  const best = (values) => values.indexOf(d3.max(values));
  const across = best(variances);
  const apart = medians.map((it, column) => (column === across ? -1
    : variances[column] - product(it, medians[across]) ** 2 / (variances[across] || 1)));
  return [across, best(apart)];
}

export function prepareScatter(content, populations, draw) {
  const columns = populations.length > 0 ? telling(content, populations) : [0, 0];
  for (const [id, first] of [["#across", columns[0]], ["#up", columns[1]]]) {
    const select = d3.select(id).on("change", draw);
    content.columns.forEach((name, column) => {
      select.append("option").attr("value", column).text(name);
    });
    select.property("value", String(first));
  }
}

export function showScatter(content, items) {
  const across = Number(d3.select("#across").property("value"));
  const up = Number(d3.select("#up").property("value"));
  const x = d3.scaleLinear(content.range(across), [LEFT, SIDE - 8]);
  const y = d3.scaleLinear(content.range(up), [SIDE - FOOT, TOP]);
  const names = items.map((item) => item.title).join(", ");
  const svg = d3.select("#scatter").text("").append("svg").attr("role", "img")
    .attr("viewBox", `0 0 ${SIDE} ${SIDE}`)
    .attr("aria-label", `${content.columns[up]} against ${content.columns[across]}: a sample of `
      + `all cells, and of ${names}`);
  const path = (cells) => cells.map((cell) => {
    const at = [x(content.value(cell, across)), y(content.value(cell, up))];
    return `M${at[0].toFixed(1)} ${at[1].toFixed(1)}h0`;
  }).join("");
  svg.append("path").attr("class", "dots all-dots").attr("d", path(content.cellsOf(1, true)));
  // The smallest one last, so that it is seen.
  for (const item of [...items].sort((a, b) => b.size - a.size)) {
    const cells = item.branches.flatMap((branch) => content.cellsOf(branch));
    svg.append("path").attr("class", item.colour ? "dots" : "dots plain")
      .attr("stroke", item.colour)
      .attr("d", path(cells));
  }
  svg.append("g").attr("transform", `translate(0,${SIDE - FOOT})`).call(d3.axisBottom(x).ticks(6));
  svg.append("g").attr("transform", `translate(${LEFT},0)`).call(d3.axisLeft(y).ticks(6));
  svg.append("text").attr("class", "axis-name").attr("x", (LEFT + SIDE) / 2).attr("y", SIDE - 8)
    .attr("text-anchor", "middle").text(short(content.columns[across]));
  svg.append("text").attr("class", "axis-name").attr("text-anchor", "middle")
    .attr("transform", `translate(12,${(SIDE - FOOT) / 2}) rotate(-90)`)
    .text(short(content.columns[up]));
}

// A name that fits an axis.
function short(name) {
  const letters = [...name];
  return letters.length > 40 ? `${letters.slice(0, 38).join("")}\u2026` : name;
}
