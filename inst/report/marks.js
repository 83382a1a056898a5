// Marks and numbers that all parts of the page share.
import * as d3 from "./d3.min.js";

export const count = d3.format(",");
export const percent = d3.format(".1%");

// A number with four digits, without exponents where possible.
export function number(value) {
  return Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
    ? value.toPrecision(3) : String(Number(value.toPrecision(4)));
}

// The colour of a population by its number.
export function colourOf(content, population) {
  return content.colours[(population.number - 1) % content.colours.length];
}

// What the page shows of the selection: the populations of the selected branches and, by itself,
// each selected branch that is none. Without a selection: all populations. Each item has a title,
// colour (null for no population), branches, and size.
export function itemsOf(content, view) {
  const itemOf = (population) => ({ ...population, colour: colourOf(content, population) });
  if (view.selected.size === 0) return view.populations.map(itemOf);
  const items = new Map();
  for (const { branch } of view.rows.filter((row) => view.selected.has(row.branch))) {
    const population = view.populationOf.get(branch);
    if (population) items.set(population.number, itemOf(population));
    else {
      items.set(`branch ${branch}`, {
        title: branchTitle(content, view, branch), colour: null, branches: [branch],
        size: content.size(branch),
      });
    }
  }
  return [...items.values()];
}

// The title of a branch that is no population.
export function branchTitle(content, view, branch) {
  const name = view.state.label.get(branch);
  if (branch === 1 && !name) return "all cells";
  return `${name ?? `branch ${content.id(branch)}`} ${view.state.out.has(branch) ? "(left out)"
    : "(open)"}`;
}

// The coloured square of an item; an empty one for no population.
export function addSwatch(node, colour) {
  const svg = node.append("svg").attr("class", "swatch").attr("viewBox", "0 0 10 10")
    .attr("aria-hidden", "true");
  svg.append("rect").attr("x", 0.5).attr("y", 0.5).attr("width", 9).attr("height", 9)
    .attr("fill", colour ?? "none").attr("stroke", colour ?? "currentColor");
  return svg;
}

// A horizontal bar of a share from 0 to 1.
export function addBar(node, share, colour) {
  const svg = node.append("svg").attr("class", "bar").attr("viewBox", "0 0 100 10")
    .attr("preserveAspectRatio", "none").attr("aria-hidden", "true");
  svg.append("rect").attr("class", "bar-room").attr("width", 100).attr("height", 10);
  svg.append("rect").attr("width", Math.min(100 * share, 100)).attr("height", 10)
    .attr("fill", colour ?? "currentColor");
  return svg;
}
