// The populations for each number k, from the top of the tree, as plot.populations() in R draws
// them.
import * as d3 from "./d3.min.js";
import { colourOf, count } from "./marks.js";
import { mostNumber } from "./state.js";

const MOST_BANDS = 30;
const BANDS_WIDTH = 640;
const BANDS_HEIGHT = 300;
const VALLEYS_HEIGHT = 90;
const BANDS_LEFT = 44;
const BANDS_GAP = 26;

// Below this depth, a valley separates two populations by itself.
const MAX_BALANCED_DEPTH = 0.3;

// The rectangles: each has its branch, the first and last number of populations that has it, and
// its share of all members, from `low` to `high`.
export function rectanglesOf(content, most) {
  const rectangles = [{ branch: 1, from: 1, to: most, low: 0, high: 1 }];
  const by = new Map([[1, rectangles[0]]]);
  for (let split = 1; split < most; split++) {
    const divided = [...by.values()].find((it) => content.splitOf(it.branch) === split);
    divided.to = split;
    let { low } = divided;
    for (const branch of content.children(divided.branch)) {
      const high = low + content.size(branch) / content.size(1);
      const part = { branch, from: split + 1, to: most, low, high };
      by.set(branch, part);
      rectangles.push(part);
      low = high;
    }
  }
  return rectangles;
}

// The population that contains a branch; "out" if that was left out, null if it has several.
function within(content, view, branch) {
  for (let up = branch; up > 0; up = content.parent(up)) {
    if (view.populationOf.has(up)) return view.populationOf.get(up);
    if (view.state.out.has(up) && !view.state.open.has(up)) return "out";
  }
  return null;
}

export function showBands(content, view, openTo) {
  const most = Math.min(MOST_BANDS, mostNumber(content));
  const box = d3.select("#bands").text("");
  d3.select("#nested").attr("hidden", most < 2 ? true : null);
  if (most < 2) return;
  const hasValleys = content.splits.valley.some((valley) => valley !== null);
  const height = BANDS_HEIGHT + 20 + (hasValleys ? BANDS_GAP + VALLEYS_HEIGHT : 0);
  const svg = box.append("svg").attr("viewBox", `0 0 ${BANDS_WIDTH} ${height}`).attr("role", "img")
    .attr("aria-label", `Nested populations for 1 to ${most} populations`);
  const x = d3.scaleLinear([0.5, most + 0.5], [BANDS_LEFT, BANDS_WIDTH - 4]);
  const y = d3.scaleLinear([0, 1], [BANDS_HEIGHT, 6]);
  svg.append("rect").attr("class", "outside").attr("x", x(0.5)).attr("y", y(1))
    .attr("width", x(most + 0.5) - x(0.5)).attr("height", y(0) - y(1));
  for (const it of rectanglesOf(content, most)) {
    const population = within(content, view, it.branch);
    const fill = population === "out" ? "outside" : population ? "" : "mixed";
    const rect = svg.append("rect").attr("class", `band ${fill}`)
      .attr("x", x(it.from - 0.5)).attr("width", x(it.to + 0.5) - x(it.from - 0.5))
      .attr("y", y(it.high)).attr("height", y(it.low) - y(it.high));
    if (population?.number) rect.attr("fill", colourOf(content, population));
    const name = population?.number ? `${population.title}: ` : "";
    rect.append("title").text(`${name}${count(content.size(it.branch))} members`);
  }
  svg.append("g").attr("transform", `translate(${BANDS_LEFT},0)`)
    .call(d3.axisLeft(y).ticks(4, "%"));
  const ticks = x.ticks(Math.min(most, 15)).filter(Number.isInteger);
  svg.append("g").attr("transform", `translate(0,${BANDS_HEIGHT})`)
    .call(d3.axisBottom(x).tickValues(ticks).tickFormat(d3.format("d")));
  if (hasValleys) drawValleys(svg, content, most, x, BANDS_HEIGHT + 20 + BANDS_GAP);
  for (let k = 1; k <= most; k++) {
    svg.append("rect").attr("class", "column").attr("x", x(k - 0.5))
      .attr("width", x(k + 0.5) - x(k - 0.5)).attr("y", 0).attr("height", height)
      .on("click", () => openTo(k))
      .append("title").text(`Open to ${k} population${k > 1 ? "s" : ""}`);
  }
}

// The depth of the valley of the split that leads to each number of populations.
function drawValleys(svg, content, most, x, top) {
  const y = d3.scaleLinear([0, 1], [top + VALLEYS_HEIGHT - 8, top]);
  svg.append("g").attr("transform", `translate(${BANDS_LEFT},0)`).call(d3.axisLeft(y).ticks(3));
  svg.append("line").attr("class", "clear").attr("x1", x(0.5)).attr("x2", x(most + 0.5))
    .attr("y1", y(MAX_BALANCED_DEPTH)).attr("y2", y(MAX_BALANCED_DEPTH));
  svg.append("text").attr("class", "axis-name").attr("x", x(0.5)).attr("y", top - 6)
    .text("Depth of the valley");
  content.splits.valley.slice(0, most - 1).forEach((valley, i) => {
    if (valley === null) return;
    svg.append("circle").attr("class", valley < MAX_BALANCED_DEPTH ? "point deep" : "point")
      .attr("cx", x(i + 2)).attr("cy", y(valley)).attr("r", 3.5);
  });
}
