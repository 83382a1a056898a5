"""The calls of other packages that peers.py times. A package is imported by its calls alone.

A call takes the array, in single precision on the host, and the job. It returns an array of the
host: clusters or neighbours, counted from 0, with -1 for noise; heights; or a matrix of distances.
Centers, and distances of neighbours, come back to the host, too, as they do from gmhclust. The job
has `device` and, for k-means, `start`, the initial centers."""

import functools
from types import SimpleNamespace

import numpy as np

# The calls, each with its package, its task (see JOBS in peers.py), its name and its function.
PEERS = []

# The number of distances that torch has at a time: 1 GiB.
DISTANCES_AT_A_TIME = 2**28


def peer(package, task, call):
    def add(function):
        PEERS.append(SimpleNamespace(package=package, task=task, call=call, function=function))
        return function
    return add


def without_self(rows, near, far):
    """Neighbours, nearest first, and their distances, without the observations themselves; without
    the last neighbour where an observation is not among its own. `rows` has the numbers of the
    observations, in a column."""
    own = near == rows
    own[~own.any(1), -1] = True
    return near[~own].reshape(len(near), -1), far[~own].reshape(len(near), -1)


# ---- FlashLib -----------------------------------------------------------------------------------


def to_torch(x, job):
    import torch
    return torch.from_numpy(x).to(job.device)


def from_torch(result, *others):
    """The result on the host; the others come there, too."""
    for one in others:
        one.cpu()
    return result.cpu().numpy()


def torch_rows(x):
    import torch
    return torch.arange(len(x), device=x.device)[:, None]


@peer("flashlib", "kmeans", "flash_kmeans")
def flash_kmeans(x, job):
    import flashlib
    # The call writes to the initial centers, so these are copied.
    labels, centers, _ = flashlib.flash_kmeans(
        to_torch(x, job), job.k, max_iters=job.iterations,
        init_centroids=to_torch(job.start.copy(), job)
    )
    return from_torch(labels, centers)


@peer("flashlib", "knn", "flash_knn")
def flash_knn(x, job):
    import flashlib
    x = to_torch(x, job)
    far, near = flashlib.flash_knn(x, x, job.k + 1)
    return from_torch(*without_self(torch_rows(x), near, far))


@peer("flashlib", "distances", "pairwise_l2")
def flash_distances(x, job):
    import flashlib
    return from_torch(flashlib.pairwise_l2(to_torch(x, job)))


# Its core distance does not count the observation itself. For as many observations as ours, its
# tree has only edges to the 32 nearest neighbours.
@peer("flashlib", "hdbscan", "flash_hdbscan")
def flash_hdbscan(x, job):
    import flashlib
    return flashlib.flash_hdbscan(to_torch(x, job), job.members, job.k - 1)


# ---- cuhc ---------------------------------------------------------------------------------------


@peer("cuhc", "linkage", "linkage")
def cuhc_linkage(x, job):
    import cuhc
    return cuhc.linkage(x, job.method.removesuffix(".D2"))[:, 2]


@peer("cuhc", "distances", "pairwise_distances")
def cuhc_distances(x, job):
    import cuhc
    return cuhc.pairwise_distances(x)


# The part of HDBSCAN that ends with the tree.
@peer("cuhc", "reachability", "hdbscan_tree")
def cuhc_reachability(x, job):
    from cuhc import _hdbscan
    return _hdbscan.hdbscan_tree(x, job.k)[0][:, 2]


@peer("cuhc", "hdbscan", "HDBSCAN")
def cuhc_hdbscan(x, job):
    import cuhc
    return cuhc.HDBSCAN(min_cluster_size=job.members, min_samples=job.k).fit(x).labels_


# ---- torch --------------------------------------------------------------------------------------


def torch_kmeans(x, job):
    import torch
    x, centers = to_torch(x, job), to_torch(job.start, job)
    for _ in range(job.iterations):
        parts = x.split(max(1, DISTANCES_AT_A_TIME // job.k))
        labels = torch.cat([torch.cdist(part, centers).argmin(1) for part in parts])
        sums = torch.zeros_like(centers).index_add_(0, labels, x)
        counts = torch.bincount(labels, minlength=job.k)[:, None]
        centers = torch.where(counts > 0, sums / counts.clamp(min=1), centers)
    return from_torch(labels, centers)


def torch_knn(x, job):
    import torch
    x = to_torch(x, job)
    parts = x.split(max(1, DISTANCES_AT_A_TIME // len(x)))
    found = [torch.cdist(part, x).topk(job.k + 1, largest=False) for part in parts]
    far, near = (torch.cat(one) for one in zip(*found))
    return from_torch(*without_self(torch_rows(x), near, far))


def torch_distances(x, job):
    import torch
    x = to_torch(x, job)
    return from_torch(torch.cdist(x, x))


def with_precision(function, precision, x, job):
    import torch
    torch.set_float32_matmul_precision(precision)
    return function(x, job)


for precision, name in [("highest", "float32"), ("high", "TF32")]:
    for task, call, function in [("kmeans", "cdist and argmin", torch_kmeans),
                                 ("knn", "cdist and topk", torch_knn),
                                 ("distances", "cdist", torch_distances)]:
        add = peer("torch", task, f"{call}, {name}")
        add(functools.partial(with_precision, function, precision))


# ---- faiss --------------------------------------------------------------------------------------

# The clusters of faiss, and of cuVS and cuML, come from one more assignment than ours, to the last
# centers.


@peer("faiss", "kmeans", "Kmeans")
def faiss_kmeans(x, job):
    import faiss
    model = faiss.Kmeans(x.shape[1], job.k, niter=job.iterations, gpu=job.device == "cuda",
                         max_points_per_centroid=len(x))
    model.train(x, init_centroids=job.start)
    return model.index.search(x, 1)[1][:, 0]


@peer("faiss", "knn", "knn_gpu")
def faiss_knn(x, job):
    import faiss
    far, near = faiss.knn_gpu(faiss.StandardGpuResources(), x, x, job.k + 1)
    return without_self(np.arange(len(x))[:, None], near, far)[0]


# ---- cuVS ---------------------------------------------------------------------------------------


@peer("cuvs", "kmeans", "kmeans")
def cuvs_kmeans(x, job):
    import cupy
    from cuvs.cluster import kmeans
    x, settings = cupy.asarray(x), kmeans.KMeansParams(
        n_clusters=job.k, init_method="Array", max_iter=job.iterations, tol=0.0
    )
    centers = kmeans.fit(settings, x, cupy.asarray(job.start))[0]
    labels = kmeans.predict(settings, x, centers)[0]
    cupy.asarray(centers).get()
    return cupy.asarray(labels).get()


@peer("cuvs", "knn", "brute_force")
def cuvs_knn(x, job):
    import cupy
    from cuvs.neighbors import brute_force
    x = cupy.asarray(x)
    found = brute_force.search(brute_force.build(x, metric="sqeuclidean"), x, job.k + 1)
    far, near = (cupy.asarray(one) for one in found)
    near, far = without_self(cupy.arange(len(x))[:, None], near, far)
    far.get()
    return near.get()


# ---- cuML ---------------------------------------------------------------------------------------


@peer("cuml", "kmeans", "KMeans")
def cuml_kmeans(x, job):
    from cuml.cluster import KMeans
    model = KMeans(n_clusters=job.k, init=job.start, n_init=1, max_iter=job.iterations, tol=1e-30)
    return model.fit(x).labels_


@peer("cuml", "knn", "NearestNeighbors")
def cuml_knn(x, job):
    from cuml.neighbors import NearestNeighbors
    model = NearestNeighbors(n_neighbors=job.k + 1, algorithm="brute").fit(x)
    far, near = model.kneighbors(x)
    return without_self(np.arange(len(x))[:, None], near, far)[0]


@peer("cuml", "hdbscan", "HDBSCAN")
def cuml_hdbscan(x, job):
    from cuml.cluster import HDBSCAN
    return HDBSCAN(min_cluster_size=job.members, min_samples=job.k).fit(x).labels_
