"""How exact the results are that peers.py compares. All measures are computed in double precision.

A result is an array: clusters or neighbours, counted from 0, with -1 for noise; heights; or
distances, as a matrix or as R's dist object, the lower triangle column by column."""

import numpy as np

# Observations whose neighbours are checked, and pairs whose distances are.
CHECKED_ROWS, CHECKED_PAIRS = 500, 100_000

# Observations that are compared with all others at a time: 160 MB for a million of these.
ROWS_AT_A_TIME = 20

# The relative error that squared distances in double precision may have, generously.
ROUNDING = 1e-9


def squared_distances(x, one, other):
    return ((x[one].astype(float) - x[other]) ** 2).sum(-1)


def exact_reaches(x, k, rows):
    """The squared distances of `rows` of x from their k-th nearest other observations."""
    centred = x.astype(float) - x.mean(0, dtype=float)
    squares, reaches = (centred**2).sum(1), []
    for part in np.split(rows, range(ROWS_AT_A_TIME, len(rows), ROWS_AT_A_TIME)):
        around = squares - 2 * (centred[part] @ centred.T)
        around[np.arange(len(part)), part] = np.inf
        near = np.argpartition(around, k - 1, axis=1)[:, :k]
        reaches.append(squared_distances(x, part[:, None], near).max(1))
    return np.concatenate(reaches)


def share_right(x, near, rows, reaches):
    """The share of neighbours that are no farther than the exact k-th neighbour."""
    right = 0
    for row, reach in zip(rows, reaches):
        found = [i for i in set(near[row].tolist()) if 0 <= i < len(x) and i != row]
        right += int((squared_distances(x, found, row) <= reach * (1 + ROUNDING)).sum())
    return right / (len(rows) * near.shape[1])


def within_squares(x, labels):
    """The sum of squared distances of observations from the means of their clusters."""
    counts, total = np.maximum(np.bincount(labels), 1), 0.0
    for column in x.T.astype(float):
        means = np.bincount(labels, column) / counts
        total += float(((column - means[labels]) ** 2).sum())
    return total


def largest_difference(found, expected):
    """The largest relative difference of heights, each in increasing order."""
    found, expected = np.sort(found), np.sort(expected)
    return float((np.abs(found - expected) / np.maximum(expected, 1e-12 * expected[-1])).max())


def distance_error(x, found, one, other):
    """The largest relative error of the distances of pairs, one < other."""
    exact = np.sqrt(squared_distances(x, one, other))
    if found.ndim == 1:
        of_pairs = found[len(x) * one - one * (one + 1) // 2 + other - one - 1]
    else:
        of_pairs = found[one, other]
    return float((np.abs(of_pairs - exact) / exact).max())


def adjusted_rand_index(a, b):
    def pairs(labels):
        sizes = np.unique(labels, return_counts=True)[1].astype(float)
        return (sizes * (sizes - 1) / 2).sum()
    a, b = a.astype(np.int64) + 1, b.astype(np.int64) + 1
    both, one, other = pairs(a * (b.max() + 1) + b), pairs(a), pairs(b)
    expected, most = one * other / (len(a) * (len(a) - 1) / 2), (one + other) / 2
    return 1.0 if most == expected else float((both - expected) / (most - expected))


def measure_of(job, x, ours):
    """What is measured for a job, and a function that measures it for a result. `ours` is the
    result of gmhclust."""
    random = np.random.default_rng(1)
    if job.task == "knn":
        rows = random.choice(len(x), min(CHECKED_ROWS, len(x)), replace=False)
        reaches = exact_reaches(x, job.k, rows)
        return "share of right neighbours", lambda near: share_right(x, near, rows, reaches)
    if job.task == "distances":
        pairs = np.sort(random.integers(len(x), size=(2, CHECKED_PAIRS)), axis=0)
        one, other = pairs[:, pairs[0] < pairs[1]]
        return "largest relative error", lambda found: distance_error(x, found, one, other)
    if job.task == "kmeans":
        objective = within_squares(x, ours)
        return "sum of squares / gmhclust's", lambda found: within_squares(x, found) / objective
    if job.task == "hdbscan":
        return "adjusted Rand index", lambda found: adjusted_rand_index(found, ours)
    return "largest relative difference", lambda found: largest_difference(found, ours)
