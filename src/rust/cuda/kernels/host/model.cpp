// tree.cu for the CPU, with several blocks and a weak memory: see the tests in src/tree/model.rs.

#define SEVERAL_BLOCKS

#include "tree.cpp"

EXPORT void *model_take_arena(size_t bytes) { return take_arena(bytes); }
EXPORT void model_give_arena(void *arena) { give_arena(arena); }

// Makes merges by several blocks; false where they wait for each other for ever.
EXPORT bool model_grow(const Tree *tree, const Clusters *clusters, void *arena, size_t bytes,
                       uint blocks, ulong seed, Turns *turns) {
  return launch_together(blocks, THREADS, arena, bytes, seed, *turns, [=] {
    if (threadIdx.x == 0) std::memset(memory, 0xa5, sizeof memory);
    __syncthreads();
    grow(*tree, *clusters);
  });
}

// ---- hand-overs by themselves, with contents that tell what is wrong ----

// Slots, dimensions, positions between two clusters, and bytes of the arena.
constexpr uint SLOTS = 12, P = 4, SPREAD = 20, CHECK_BYTES = 1 << 22;
// Jobs that are posted together, and how often; the numbers that they have.
constexpr uint POSTED_TOGETHER = 4, POSTS = 3 * RING / 2 / POSTED_TOGETHER, NUMBERS = 8;
// Works of a block that shares them, and blocks that do. The ring has room for all their calls, so
// no block is as late as the ring takes to come round.
constexpr uint WORKS = 10, OWNERS = 2;
static_assert(OWNERS * WORKS * DISTANCE_HELPERS <= RING && OWNERS * WORKS * SWEEP_HELPERS <= RING,
              "room for all");

struct Model {
  Tree tree = {};
  Clusters clusters = {};
  char *arena, *end;
  const char *failure = nullptr;
  unsigned long long random;
  uint draw(uint end) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    return (random >> 33) % end;
  }

  // What blocks note for the checks, all at once.
  uint taken[POSTED_TOGETHER * POSTS + 1] = {}, reported[POSTED_TOGETHER * POSTS + 1] = {};
  int helping[OWNERS][1 << TAG_BITS] = {};
  uint owners_done = 0;
  uint lower[SLOTS], higher[SLOTS]; // of each merge
  uint started = 0;                 // of these merges
  uint accepted = 0, refused = 0;

  Model(ulong seed) : random(seed) {
    arena = end = (char *)take_arena(CHECK_BYTES);
    std::memset(arena, 0, CHECK_BYTES);
    constexpr uint nodes = SLOTS + JOBS, positions = 256, row = P + SCALARS;
    tree.unit = tree.diagonal = 64;
    tree.dimensions = P;
    tree.clusters = SLOTS;
    tree.balls = positions / WARP;
    tree.query_words = QUERY_LENGTH + padded_row(P);
    tree.member_room = 1;
    tree.log2_terms = 12;
    tree.max_jobs = NUMBERS;
    double *center, *x;
    place(center, P), place(x, 1024 * P);
    tree.center = center;
    tree.x = x;
    place(tree.means, nodes * P), place(tree.floor_values, nodes);
    place(tree.floor_ties, nodes), place(tree.candidate_values, nodes * CANDIDATES);
    place(tree.candidate_slots, nodes * CANDIDATES), place(tree.candidate_ids, nodes * CANDIDATES);
    place(tree.counts, nodes), place(tree.sizes, nodes), place(tree.shapes, nodes);
    place(tree.member_starts, nodes), place(tree.ids, SLOTS), place(tree.firsts, SLOTS);
    place(tree.births, SLOTS), place(tree.positions, SLOTS), place(tree.members, 1024);
    place(tree.slots_at, positions), place(tree.births_at, positions);
    place(tree.ball_rows, (P + BALL_SCALARS) * tree.balls);
    place(tree.region_rows, P + BALL_SCALARS), place(tree.rows, JOBS * row);
    place(tree.jobs, JOBS), place(tree.shared_work, JOBS + 1),
        place(tree.sums, 2 * JOBS * JOB_SUMS);
    place(tree.queries, JOBS * tree.query_words), place(tree.found, 2 * JOBS * FOUND_ROOM);
    place(tree.posted, RING), place(tree.done, RING), place(tree.control, CONTROL_WORDS);
    place(tree.radius_factor, 1), place(clusters.rows, positions * row);
    clusters.dimensions = P;
    std::memset(tree.shared_work, 0x7f, (JOBS + 1) * sizeof(SharedWork));
    for (uint n = 0; n <= JOBS; n++)
      tree.shared_work[n].next = tree.shared_work[n].generation = ~0u / 2;
    for (uint position = 0; position < positions; position++) {
      float *to = row_at(clusters, position);
      // In all balls.
      uint slot = position / SPREAD;
      bool there = position % SPREAD == 0 && slot < SLOTS;
      for (uint k = 0; k < P; k++) to[k * WARP] = there ? slot : 0;
      to[(P + LOW) * WARP] = there ? 1 : GONE;
      to[(P + SHAPE) * WARP] = __uint_as_float(NONE);
      tree.slots_at[position] = there ? slot : 0;
      tree.births_at[position] = there ? slot : NONE;
    }
    for (uint slot = 0, members = 0; slot < SLOTS; slot++) {
      for (uint k = 0; k < P; k++) tree.means[slot * P + k] = slot;
      tree.ids[slot] = tree.births[slot] = slot;
      tree.positions[slot] = slot * SPREAD;
      tree.sizes[slot] = 1 + slot % 7;
      tree.member_starts[slot] = members;
      members += tree.sizes[slot];
    }
    for (uint node = 0; node < nodes; node++) tree.shapes[node] = NONE;
    for (uint m = 0; m < 1024; m++) {
      tree.members[m] = m;
      for (uint k = 0; k < P; k++) x[m * P + k] = m * (k + 1) % 61;
    }
    launch({1}, THREADS, [&] { enclose(tree, clusters); });
    launch({1}, THREADS, [&] { enclose_again(tree, clusters); });
  }
  ~Model() { give_arena(arena); }
  template <class T> void place(T *&array, size_t length) {
    array = (T *)end;
    end += (length * sizeof(T) + 63) / 64 * 64;
    if (end > arena + CHECK_BYTES) std::abort();
  }
  void expect(bool holds, const char *claim) {
    if (!holds) failure = claim;
  }
};

// What a block works with, as in grow().
struct BlockRoom {
  Shared &shared;
  Entries &entries;
  SearchState &search;
  float *query;
  Workspace room;
};
static BlockRoom room_of_block(const Tree &tree, Shared &shared, Entries &entries,
                               double *from) {
  float *query = (float *)(from + SEARCH_BYTES / sizeof(double));
  double *rest = from + SEARCH_BYTES / sizeof(double) + query_doubles(P);
  return {shared, entries, *(SearchState *)from, query, Workspace(tree, shared, rest)};
}

static void clear_sequencer(Sequencer &sequencer) {
  FOR_EACH(word, SEQUENCER_BYTES / sizeof(uint))((uint *)&sequencer)[word] = 0;
  __syncthreads();
  uint i = threadIdx.x;
  sequencer.buckets[i] = NOWHERE;
  if (i < RECENT) sequencer.recent_ids[i] = NONE;
  if (i < JOBS) sequencer.lower_used[i] = sequencer.higher_used[i] = NONE;
  __syncthreads();
}

static void end_launch(const Tree &tree) {
  __syncthreads();
  if (threadIdx.x > 0) return;
  __threadfence();
  *(volatile uint *)(tree.control + STATUS) = ALL_MERGED;
}

// Whether the union of a job with this id has room for its members.
static bool has_room_for(uint id) { return id % 5 != 0; }

// Jobs and results. Each job has a serial number, its id, which is in all of its description and of
// its result. Of two that are posted together, the second waits for the union of the first.
static void post_and_take(Model &model) {
  const Tree &tree = model.tree;
  __shared__ Shared shared;
  __shared__ Entries entries;
  __shared__ uint number, serial, left, ends;
  uint i = threadIdx.x;
  if (blockIdx.x > 0) {
    BlockRoom mine = room_of_block(tree, shared, entries, memory);
    for (;;) {
      __syncthreads();
      if (i == 0) number = model.failure ? NONE : wait_for_post(tree);
      __syncthreads();
      if (number == NONE) return;
      Job &job = tree.jobs[number];
      FOR_EACH(word, sizeof(Job) / sizeof(uint)) {
        ((uint *)&mine.search.job)[word] = ((uint *)&job)[word];
      }
      __syncthreads();
      const Job &copy = mine.search.job;
      uint id = copy.id, node = SLOTS + number;
      bool is_whole = copy.node == node && copy.is_new == 1 && copy.births_below == id;
      for (uint k = 0; k < SKIPPED; k++) is_whole = is_whole && copy.skip[k] == id + k;
      model.expect(is_whole, "the description of a job is whole");
      if (id > POSTED_TOGETHER * POSTS || !is_whole) return;
      if (i == 0) model.expect(++model.taken[id] == 1, "a job is taken once");
      if (copy.waits_for[0] != NONE) {
        bool has_room = has_room_for(copy.awaited_ids[0]);
        bool are_there = wait_for_unions(tree, copy);
        model.expect(are_there == has_room, "whether there is room comes with the union");
        uint other = SLOTS + copy.waits_for[0];
        bool is_right = tree.sizes[other] == copy.awaited_ids[0];
        for (uint k = 0; k < P; k++)
          is_right = is_right && mean_of(tree, other)[k] == copy.awaited_ids[0];
        model.expect(is_right, "the union that is awaited is whole");
      }
      if (i < P) mean_of(tree, node)[i] = id;
      if (i == P) tree.sizes[node] = id;
      publish(job, id, !has_room_for(id));
      // The rest of a job takes long.
      if (i == 0)
        for (uint n = 0; n < id % 4; n++) let_others();
      if (i < CANDIDATES) tree.candidate_values[node * CANDIDATES + i] = id + i;
      if (i == 40) tree.floor_ties[node] = id;
      if (i == 0) job.made_at = id;
      report(tree, number);
    }
  }
  Sequencer &sequencer = sequencer_of_block();
  clear_sequencer(sequencer);
  BlockRoom mine = room_of_block(tree, shared, entries, lists_of_block(tree).end());
  Work work{tree, model.clusters, entries, mine.room, mine.search};
  if (i == 0) serial = left = 0;
  for (uint posts = 0; posts < POSTS || left > 0;) {
    __syncthreads();
    if (i == 0) {
      sequencer.inserted = sequencer.posted = sequencer.request_count = sequencer.listed = 0;
      for (uint n = 0; n < NUMBERS && posts < POSTS; n++)
        if (sequencer.users[n] == 0) sequencer.list[sequencer.listed++] = n;
      // No block is as late as the ring takes to come round.
      for (uint id = 1; id + RING < serial + 2 * POSTED_TOGETHER; id++)
        if (!model.taken[id]) sequencer.listed = 0;
    }
    __syncthreads();
    bool posts_now = sequencer.listed >= POSTED_TOGETHER;
    __syncthreads();
    // As in a plan, a job that waits is posted after the one that it waits for.
    for (uint side = 0; posts_now && side < 2; side++) {
      if (i < POSTED_TOGETHER && i % 2 == side) {
        uint own = sequencer.list[i], first = sequencer.list[i - side], id = serial + i + 1;
        sequencer.ids[own] = id;
        Job &job = tree.jobs[own];
        job.node = SLOTS + own;
        job.is_new = 1;
        job.id = job.births_below = id;
        for (uint k = 0; k < SKIPPED; k++) job.skip[k] = id + k;
        job.waits_for[0] = side == 1 ? first : NONE;
        job.waits_for[1] = NONE;
        job.awaited_ids[0] = id - 1;
        sequencer.lower_used[own] = job.waits_for[0];
        if (side == 1) atomicAdd(&sequencer.users[first], 1);
        note_post(sequencer, own);
      }
      __syncthreads();
      post_requests(work, 0);
    }
    if (posts_now) {
      posts += 1;
      if (i == 0) serial += POSTED_TOGETHER, left += POSTED_TOGETHER;
    }
    uint count = take_results(work);
    if (i < count) {
      uint own = sequencer.list[i], id = sequencer.ids[own], node = SLOTS + own;
      model.expect(++model.reported[id] == 1, "a result is seen once");
      bool is_whole = tree.jobs[own].made_at == id && tree.floor_ties[node] == id;
      for (uint k = 0; k < CANDIDATES; k++)
        is_whole = is_whole && tree.candidate_values[node * CANDIDATES + k] == id + k;
      for (uint k = 0; k < P; k++) is_whole = is_whole && mean_of(tree, node)[k] == id;
      model.expect(is_whole, "a result is seen whole");
    }
    __syncthreads();
    if (i == 0) {
      left -= count;
      ends = model.failure != nullptr;
    }
    __syncthreads();
    if (ends) break;
  }
  end_launch(tree);
}

// A number that tells what a sweep found, in any order.
static ulong digest(const SearchState &search) {
  ulong sum = search.found;
  for (uint n = 0; n < search.found; n++)
    sum += (__float_as_uint(search.bounds[n]) ^ (ulong)search.positions[n] << 40) *
           0x9e3779b97f4a7c15ull;
  return sum;
}

// Sums and sweeps of some blocks that all help with.
static void share_all(Model &model) {
  const Tree &tree = model.tree;
  const Clusters &clusters = model.clusters;
  __shared__ Shared shared;
  __shared__ Entries entries;
  __shared__ uint number, is_last;
  __shared__ double expected[JOB_SUMS];
  uint i = threadIdx.x;
  BlockRoom mine = room_of_block(tree, shared, entries, memory);
  SearchState &search = mine.search;
  if (blockIdx.x < OWNERS) {
    uint own = blockIdx.x, generation = ~0u / 2;
    for (uint work = 0; work < WORKS; work++) {
      uint kind = (work + own) % 3 == 0 ? SWEEP : DISTANCES, tag = tag_of(++generation, kind);
      // No block is as late as tags take to come again.
#ifndef LATE_HELPERS
      if (i == 0)
        while (model.helping[own][tag] != 0 && !model.failure) let_others();
#endif
      if (i == 0) is_last = model.failure != nullptr;
      __syncthreads();
      if (is_last) break;
      uint node = (work * 5 + own) % SLOTS;
      if (kind == SWEEP) {
        write_query(clusters, row_at(clusters, SPREAD * node), ROW_STRIDE, mine.query);
        if (i == 0) {
          search.from = 0;
          search.limit = 1 + work % 9;
          search.births_below = NONE;
          search.found = 0;
        }
        __syncthreads();
        collect_from(tree, clusters, search, mine.query, PartOfBalls(tree, 0, 1, false));
        ulong alone = digest(search);
        uint count = search.found;
        __syncthreads();
        sweep_with_help(tree, clusters, own, search, mine.query, mine.room);
        model.expect(search.found == count, "a sweep finds each cluster once");
        if (search.found == count)
          model.expect(digest(search) == alone, "a sweep with help finds the same");
      } else {
        if (i == 0) search.node = operand_of(tree, node);
        if (i < DECIDED_TOGETHER) put_cluster(search, i, operand_of(tree, (node + i + 1) % SLOTS));
        find_spans(search, SPAN);
        FOR_EACH(k, JOB_SUMS) search.sums[k] = 0;
        __syncthreads();
        add_part(tree, search, 0, 1, search.sums, mine.room);
        __syncthreads();
        FOR_EACH(k, JOB_SUMS) expected[k] = search.sums[k];
        __syncthreads();
        sum_distances(tree, clusters, own, search, mine.query, mine.room);
        FOR_EACH(k, JOB_SUMS)
        model.expect(search.sums[k] == expected[k], "each chunk is done once");
      }
      if (i == 0) model.helping[own][tag] += search.helpers;
      __syncthreads();
    }
    if (i == 0) is_last = ++model.owners_done == OWNERS || model.failure;
    __syncthreads();
    if (is_last) return end_launch(tree);
  }
  for (;;) {
    __syncthreads();
    if (i == 0) number = model.failure ? NONE : wait_for_post(tree);
    __syncthreads();
    if (number == NONE) return;
    uint own = number % (1u << NUMBER_BITS), tag = number >> NUMBER_BITS & ((1u << TAG_BITS) - 1);
    model.expect(number & HELP && own < OWNERS, "a post is whole");
    take_chunks(tree, clusters, own, search, mine.query, mine.room, tag, false);
    __syncthreads();
    if (i == 0) model.helping[own][tag] -= 1;
  }
}

// Merges, which blocks read meanwhile: all of a cluster's contents are its id.
static void commit_and_read(Model &model) {
  const Tree &tree = model.tree;
  __shared__ Shared shared;
  __shared__ Entries entries;
  __shared__ uint committed, ends;
  uint i = threadIdx.x;
  if (blockIdx.x > 0) {
    BlockRoom mine = room_of_block(tree, shared, entries, memory);
    SearchState &search = mine.search;
    Deciding on = {tree, model.clusters, NONE, search, mine.query, entries, mine.room};
    if (i == 0) search.job.skipped = search.job.slot = 0;
    for (uint turn = 0;; turn++) {
      __syncthreads();
      if (i == 0) committed = load_acquire(tree.control + COMMITTED);
      __syncthreads();
      // All merges before show.
      uint least[SLOTS];
      for (uint slot = 0; slot < SLOTS; slot++) least[slot] = slot;
      for (uint merge = 0; merge < committed; merge++)
        least[model.lower[merge]] = least[model.higher[merge]] = SLOTS + merge;
      if (i < SLOTS) {
        uint id = id_at(tree, i);
        bool is_gone = false, is_merged = false;
        for (uint merge = 0; merge < model.started; merge++) {
          bool is_its = model.lower[merge] == i || model.higher[merge] == i;
          is_merged = is_merged || (is_its && merge >= committed);
          is_gone = is_gone || (model.higher[merge] == i && merge < committed);
        }
        bool may_be_none = is_gone || is_merged;
        model.expect(id == NONE ? may_be_none : id >= least[i],
                     "the id shows all committed merges");
        const float *row = row_at(model.clusters, i * SPREAD);
        if (is_gone)
          model.expect(!(row[(P + LOW) * WARP] >= 0), "a cluster that is gone is not swept");
        else
          for (uint k = 0; k < P; k++)
            model.expect(row[k * WARP] >= least[i], "the row shows all committed merges");
        if (!is_gone && least[i] >= SLOTS)
          model.expect(tree.births_at[i * SPREAD] >= least[i],
                       "the order shows all committed merges");
      }
      if (i == 0) {
        search.births_below = NONE;
        search.node = {SLOTS + JOBS - 1, NONE, 1, 0};
        search.found = DECIDED_AT_A_TIME;
        entries.count = 0;
      }
      if (i < DECIDED_AT_A_TIME) {
        search.by_bound[i] = i;
        search.positions[i] = (turn * 7 + i * 5) % SLOTS * SPREAD;
      }
      __syncthreads();
      add_distances(on, 0, DECIDED_AT_A_TIME);
      if (i < entries.count) {
        double distance = __longlong_as_double(entries.values[i]);
        model.expect(distance == 2 * entries.ids[i], "no distance that counts is of two clusters");
      }
      if (i == 0) {
        model.accepted += entries.count;
        model.refused += DECIDED_AT_A_TIME - entries.count;
      }
      if (i == 0) ends = committed == SLOTS - 1 || model.failure;
      __syncthreads();
      if (ends) return;
    }
  }
  Sequencer &sequencer = sequencer_of_block();
  clear_sequencer(sequencer);
  BlockRoom mine = room_of_block(tree, shared, entries, lists_of_block(tree).end());
  Work work{tree, model.clusters, entries, mine.room, mine.search};
  for (uint merge = 0; merge < SLOTS - 1; merge++) {
    uint lower = model.lower[merge], higher = model.higher[merge], job = merge, id = SLOTS + merge;
    if (i == 0) model.started = merge + 1;
    // As the job's worker and merge() do.
    if (i < P) mean_of(tree, SLOTS + job)[i] = lists_of_block(tree).row(job)[i] = id;
    if (i < SCALARS)
      lists_of_block(tree).row(job)[P + i] = i == LOW ? 1 : i == SHAPE ? __uint_as_float(NONE) : 0;
    __syncthreads();
    if (i < RECENT) {
      uint slot = sequencer.recent_slots[i];
      if (slot == lower || slot == higher) sequencer.recent_ids[i] = NONE;
    }
    __syncthreads();
    if (i == 0) {
      sequencer.lower[job] = lower;
      sequencer.higher[job] = higher;
      sequencer.shapes[job] = NONE;
      sequencer.recent_slots[merge % RECENT] = lower;
      sequencer.recent_ids[merge % RECENT] = id;
      sequencer.recent_jobs[merge % RECENT] = job;
    }
    if (i == WARP) tree.ids[lower] = NONE;
    if (i == WARP + 1) tree.ids[higher] = NONE;
    __syncthreads();
    if (i == 0) sequencer.merges += 1;
    __syncthreads();
    bool is_last = merge + 2 == SLOTS;
    if (merge % 5 % 2 == 0 || sequencer.merges - sequencer.committed == RECENT || is_last)
      commit(work);
    if (i == 0) let_others();
  }
}

// Runs one of these: jobs and results, shared work, or commits. Returns which claim does not hold,
// or nullptr.
EXPORT const char *model_check(uint which, uint blocks, ulong seed, Turns *turns) {
  Model model(seed);
  if (which == 2) {
    model.tree.member_room = 0;
    bool is_gone[SLOTS] = {};
    for (uint merge = 0; merge < SLOTS - 1; merge++) {
      auto active = [&] {
        for (;;)
          if (uint slot = model.draw(SLOTS); !is_gone[slot]) return slot;
      };
      uint one = active(), other = active();
      while (other == one) other = active();
      model.lower[merge] = min(one, other);
      model.higher[merge] = max(one, other);
      is_gone[model.higher[merge]] = true;
    }
  }
  if (which != 1) model.tree.member_room = 0;
  bool ended = launch_together(blocks, THREADS, model.arena, CHECK_BYTES, seed, *turns, [&] {
    if (which == 0) return post_and_take(model);
    if (which == 1) return share_all(model);
    commit_and_read(model);
  });
  if (which == 2 && model.accepted == 0) model.failure = "some distances count";
  if (which == 0 && ended && !model.failure)
    for (uint id = 1; id <= POSTED_TOGETHER * POSTS; id++)
      model.expect(model.reported[id] == 1, "each job has a result");
  return model.failure ? model.failure : ended ? nullptr : "no block waits for ever";
}
