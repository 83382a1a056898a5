// What a person has chosen: a state is never changed, every step makes a new one.
//
// open: the branches that are divided. out: branches that were left out. label: names by branch.
// union: for unnamed branches that were merged, the number of their union. Branches with the same
// name or union are one population.

export function beginning(content) {
  const state = { open: new Set(), out: new Set(), label: new Map(), union: new Map() };
  const chosen = new Set(content.begin.groups.flat());
  for (const branch of chosen) {
    for (let up = content.parent(branch); up > 0; up = content.parent(up)) state.open.add(up);
  }
  content.begin.groups.forEach((group, i) => {
    for (const branch of group) {
      if (content.begin.names[i]) state.label.set(branch, content.begin.names[i]);
      else if (group.length > 1) state.union.set(branch, Math.min(...group));
    }
  });
  for (const row of rowsOf(content, state)) {
    if (!row.isOpen && !chosen.has(row.branch)) state.out.add(row.branch);
  }
  return state;
}

function copyOf(state) {
  return {
    open: new Set(state.open), out: new Set(state.out), label: new Map(state.label),
    union: new Map(state.union),
  };
}

// The rows of the tree from the top: each has its branch, level from 1, and whether it is open; and
// its position among the parts of its parent.
export function rowsOf(content, state) {
  const rows = [];
  const add = (branch, level, position, of) => {
    const isOpen = state.open.has(branch) && content.splitOf(branch) > 0;
    rows.push({ branch, level, position, of, isOpen, canOpen: content.splitOf(branch) > 0 });
    if (isOpen) content.children(branch).forEach((part, i) => add(part, level + 1, i + 1, 2));
  };
  add(1, 1, 1, 1);
  return rows;
}

// The populations by decreasing size, then by first leaf, as in R: each has its number, name (""
// for none), branches, and size.
export function populationsOf(content, state) {
  const groups = new Map();
  for (const { branch, isOpen } of rowsOf(content, state)) {
    if (isOpen || state.out.has(branch)) continue;
    const name = state.label.get(branch);
    const union = state.union.get(branch);
    const key = name ? `name ${name}` : union ? `union ${union}` : `branch ${branch}`;
    if (!groups.has(key)) groups.set(key, { name: name ?? "", branches: [], size: 0 });
    const group = groups.get(key);
    group.branches.push(branch);
    group.size += content.size(branch);
  }
  const first = (group) => Math.min(...group.branches.map(content.first));
  const sorted = [...groups.values()].sort((a, b) => b.size - a.size || first(a) - first(b));
  sorted.forEach((group, i) => {
    group.number = i + 1;
    group.branches.sort((a, b) => a - b);
    group.title = group.name || String(group.number);
  });
  return sorted;
}

export function opened(content, state, branch) {
  const next = copyOf(state);
  next.open.add(branch);
  next.out.delete(branch);
  return next;
}

export function closed(content, state, branch) {
  const next = copyOf(state);
  next.open.delete(branch);
  return next;
}

// The whole tree opened by its first splits, to this number of branches.
export function openedTo(content, state, number) {
  const next = copyOf(state);
  next.open.clear();
  next.out.clear();
  next.union.clear();
  for (let branch = 1; branch <= content.count; branch++) {
    const split = content.splitOf(branch);
    if (split > 0 && content.splits.number[split - 1] < number) next.open.add(branch);
  }
  return next;
}

// The most populations to which openedTo() can open: all splits before it must be there.
export function mostNumber(content) {
  const gap = content.splits.number.findIndex((number, i) => number !== i + 1);
  return (gap < 0 ? content.splits.number.length : gap) + 1;
}

// A name as it is kept: without control characters, and white space around it.
export function cleanName(text) {
  const plain = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, " ");
  return plain.replace(/\p{Surrogate}/gu, "\ufffd").normalize("NFC").trim();
}

// Why R would refuse a name; "" if it would not.
export function nameProblem(name) {
  if (name === "none") return "\"none\" stands for cells in no population.";
  if (/^[0-9]+$/.test(name)) return "A number is no name: populations without a name have numbers.";
  return "";
}

// The branches with a name; "" takes the name away.
export function named(state, branches, name) {
  const next = copyOf(state);
  for (const branch of branches) {
    if (name) {
      next.label.set(branch, name);
      next.union.delete(branch);
    } else {
      next.label.delete(branch);
      if (branches.length > 1) next.union.set(branch, Math.min(...branches));
    }
  }
  return next;
}

// Populations as one population, with the first name that one of them has.
export function merged(state, populations) {
  const name = populations.map((population) => population.name).find((it) => it) ?? "";
  return named(state, populations.flatMap((population) => population.branches), name);
}

// The branches of populations as a population each, without names if there are several.
export function separated(state, populations) {
  const next = copyOf(state);
  for (const { branches } of populations.filter((it) => it.branches.length > 1)) {
    for (const branch of branches) {
      next.label.delete(branch);
      next.union.delete(branch);
    }
  }
  return next;
}

// Branches left out or, if all of them are, taken in again.
export function leftOut(state, branches) {
  const next = copyOf(state);
  const areOut = branches.every((branch) => state.out.has(branch));
  for (const branch of branches) {
    if (areOut) next.out.delete(branch);
    else next.out.add(branch);
  }
  return next;
}

// ---- as text ------------------------------------------------------------------------------------

export function textOf(state) {
  return JSON.stringify([[...state.open], [...state.out], [...state.label], [...state.union]]);
}

// The state of a text; null if it is none of this content.
export function stateOf(content, text) {
  try {
    const [open, out, label, union] = JSON.parse(text);
    const isBranch = (it) => Number.isInteger(it) && it >= 1 && it <= content.count;
    const isName = (it) => content.begin.names.includes(it) || it === cleanName(it) &&
      it.length <= 200 && nameProblem(it) === "";
    const isSound = [...open, ...out].every(isBranch) &&
      label.every(([branch, name]) => isBranch(branch) && name !== "" && isName(name)) &&
      union.every(([branch, number]) => isBranch(branch) && isBranch(number));
    if (!isSound) return null;
    return {
      open: new Set(open), out: new Set(out), label: new Map(label), union: new Map(union),
    };
  } catch {
    return null;
  }
}
