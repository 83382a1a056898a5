// The content of the page, as R wrote it. Branches have the numbers 1, 2, ...: 1 is the whole tree,
// and split s divides a branch into branches 2 s and 2 s + 1.

export const QUANTILES = ["5%", "25%", "50%", "75%", "95%"];
const LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95];
const MEDIAN = 2;

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

// The content of a text of JSON, with functions that find the numbers of a branch. Columns have the
// numbers 0, 1, ...
export function contentOf(text) {
  const raw = JSON.parse(text);
  const { branches, splits, sample } = raw;
  const p = raw.columns.length;
  const count = branches.split.length;
  const densities = bytesOf(raw.densities);
  const values = bytesOf(sample.values);
  const even = bytesOf(sample.even);
  const steps = densities.length / (p * count);
  const rows = even.length;

  const children = (branch) => {
    const split = branches.split[branch - 1];
    return split > 0 ? [2 * split, 2 * split + 1] : [];
  };
  const size = (branch) => branches.size[branch - 1];
  const quantiles = (branch, column) => {
    const from = ((branch - 1) * p + column) * QUANTILES.length;
    return raw.quantiles.slice(from, from + QUANTILES.length);
  };
  const densityOf = (branch, column) => {
    const from = ((branch - 1) * p + column) * steps;
    return densities.subarray(from, from + steps);
  };
  const range = (column) => raw.range.slice(2 * column, 2 * column + 2);

  // The density of the union of branches: an array of numbers whose sum is 1.
  const density = (union, column) => {
    const sums = new Array(steps).fill(0);
    const members = union.reduce((sum, branch) => sum + size(branch), 0);
    for (const branch of union) {
      const bytes = densityOf(branch, column);
      const share = size(branch) / members / bytes.reduce((sum, byte) => sum + byte, 0);
      bytes.forEach((byte, step) => { sums[step] += share * byte; });
    }
    return sums;
  };

  return {
    title: raw.title, code: raw.code, columns: raw.columns, cells: raw.cells, least: raw.least,
    begin: raw.begin, samples: raw.samples, gates: raw.gates, colours: raw.colours,
    count, splits, steps, children, size, quantiles, range, density,
    splitOf: (branch) => branches.split[branch - 1],
    parent: (branch) => branches.parent[branch - 1],
    id: (branch) => branches.id[branch - 1],
    first: (branch) => branches.first[branch - 1],
    hasSupport: Array.isArray(branches.support),
    support: (branch) => branches.support?.[branch - 1] ?? null,
    median: (branch, column) => quantiles(branch, column)[MEDIAN],

    // A value as a share of the range of colours of its column.
    unit: (value, column) => {
      const [low, high] = raw.scale.slice(2 * column, 2 * column + 2);
      return high > low ? Math.min(Math.max((value - low) / (high - low), 0), 1) : 0;
    },

    // The colour of such a share.
    medianColour: (share) => raw.palette[Math.min(Math.floor(share * raw.palette.length),
      raw.palette.length - 1)],

    // The quantiles of a union of branches. Those of several branches are approximate.
    unionQuantiles: (union, column) => {
      if (union.length === 1) return quantiles(union[0], column);
      return quantilesOf(density(union, column), range(column));
    },

    // The numbers of the cells of the sample in a branch; with `onlyEven`, those that are evenly
    // spaced in the tree.
    cellsOf: (branch, onlyEven = false) => {
      const cells = [];
      for (let cell = sample.from[branch - 1] - 1; cell < sample.to[branch - 1]; cell++) {
        if (!onlyEven || even[cell]) cells.push(cell);
      }
      return cells;
    },
    value: (cell, column) => {
      const [low, high] = range(column);
      return low + (high - low) * values[column * rows + cell] / 255;
    },

    // The counts of the labels of `of` (samples or gates) in a union of branches.
    counts: (of, union) => of.labels.map((label, i) => union.reduce(
      (sum, branch) => sum + of.counts[(branch - 1) * of.labels.length + i], 0)),
  };
}

// Quantiles of a density in equal steps of a range.
export function quantilesOf(density, [low, high]) {
  const width = (high - low) / density.length;
  return LEVELS.map((level) => {
    let below = 0;
    for (let step = 0; step < density.length; step++) {
      if (below + density[step] >= level && density[step] > 0) {
        return low + width * (step + (level - below) / density[step]);
      }
      below += density[step];
    }
    return high;
  });
}
