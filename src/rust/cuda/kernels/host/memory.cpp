// Several blocks that share a weak memory, on one CPU.
//
// Each block is a thread of the operating system, and one of them runs at a time: so all that CUDA
// calls shared memory is a block's own, as thread_local. The kernels are compiled with
// -fsanitize=thread, for its calls before each read and write; accesses.hpp gives these calls
// another meaning.
//
// Two effects make the memory weak, as L1 caches and store queues of a GPU do:
// - What a block writes is at first in a buffer of its own, where its own threads find it. It comes
//   to the other blocks in any order: at the latest when a thread goes past a fence that has
//   written it itself, or has met the writer at a barrier since.
// - What comes to the others may be stale there: a block goes on to read the value before, until it
//   goes past a fence or an acquire, or until any time before. So its reads may be out of order.
// Atomic operations act on what all see. The words of one write of 8 bytes stay together.
//
// While a block runs, the arena has its view: `hidden` has what the others see of words in its
// buffer, or of stale ones. While it does not, `hidden` has its view of these words.

#define SEVERAL_BLOCKS
#include "cuda.hpp"

#include <condition_variable>
#include <mutex>
#include <sys/mman.h>
#include <thread>

namespace {

typedef unsigned uint;

// Of fences, acquires and atomic operations, and of each write that a fence makes visible: so many
// reads or writes count as much for the end of a turn.
constexpr int WEIGHT_OF_POINT = 25, WEIGHT_IN_FENCE = 4;
// Writes that a fence makes visible before the others.
constexpr size_t SOME_FIRST = 6;
// Switches without any write after which all is made visible, and after which blocks will never go
// on; and switches after which they will never end.
constexpr uint IDLE_FOR_ALL = 8, IDLE_FOR_EVER = 20'000, MOST_SWITCHES = 500'000;
// Acquires in a row, without a write, of a block that only waits: those of its threads, once.
constexpr uint MANY_ACQUIRES = 256;
// Switches for which others go first, at most, where a block waits.
constexpr uint SHORT_WAIT = 16;

// All arenas, so that one comparison tells most accesses from theirs.
constexpr size_t ARENA_BYTES = 1 << 26, ARENAS = 16;
char *const all_arenas = (char *)mmap(nullptr, ARENAS *ARENA_BYTES, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

constexpr uint MOST_LATE = 12; // log2 of the most switches for which a block is late

struct Write {
  uint word, words;
  // Who wrote it, and the meetings of its block and warp before.
  uint thread, block_meetings, warp_meetings;
};

struct Stale {
  uint word, words; // that became stale together
};

// What a thread of the operating system waits for, once.
struct Signal {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_given = false;
  void give() {
    std::lock_guard<std::mutex> lock(mutex);
    is_given = true;
    changed.notify_one();
  }
  void await() {
    std::unique_lock<std::mutex> lock(mutex);
    for (; !is_given; changed.wait(lock)) {}
    is_given = false;
  }
};

struct View {
  std::vector<Write> buffer;
  std::vector<uint> write_of; // one more than the place in the buffer, by word
  std::vector<Stale> stale;   // they count as far as `is_stale`
  std::vector<unsigned char> is_stale;
  std::vector<uint> hidden;
  Signal turn;
  bool is_finished;
  uint late; // switches for which others go first
  jmp_buf escape;
};

struct Machine {
  uint *words; // of the arena
  std::vector<View> views;
  std::vector<Block> blocks;
  uint count, left;
  Turns turns;
  unsigned long long random;
  // Of this launch: the mean length of a turn; of 256 words, how many become stale; how often a
  // block is late. Then switches without a write, and acquires in a row.
  uint mean_turn, stale_share, late_share, idle, acquires;
  long countdown;
  bool is_hung;
  Signal end;
};

std::mutex of_machines;
std::vector<std::unique_ptr<Machine>> machines;
std::vector<void *> free_arenas;
size_t used_arenas = 0;

thread_local Machine *machine = nullptr;
thread_local uint me = 0;
thread_local bool in_atomic = false;
struct {
  uint word, words, before[2];
} thread_local atomic;

uint draw(Machine &m) {
  m.random ^= m.random >> 12;
  m.random ^= m.random << 25;
  m.random ^= m.random >> 27;
  return (m.random * 0x2545f4914f6cdd1dull) >> 32;
}
uint below(Machine &m, uint end) { return (unsigned long long)draw(m) * end >> 32; }

// Other blocks may go on to see what was there before, unless they see a value of their own.
void leave_stale(Machine &m, uint writer, uint word, uint words, uint before, uint before_next) {
  for (uint b = 0; b < m.count; b++) {
    View &view = m.views[b];
    if (b == writer || view.is_finished || below(m, 256) >= m.stale_share) continue;
    uint first = word, count = words;
    auto has_own = [&](uint at) { return view.write_of[at] || view.is_stale[at]; };
    if (has_own(first)) first++, count--;
    if (count > 0 && has_own(first + count - 1)) count--;
    if (count == 0) continue;
    for (uint at = first; at < first + count; at++) {
      view.is_stale[at] = 1;
      view.hidden[at] = at == word ? before : before_next;
    }
    view.stale.push_back({first, count});
    m.turns.stale_words += count;
  }
}

// Makes a write of the buffer visible to all blocks; the last one of the buffer takes its place.
void make_visible(Machine &m, uint b, uint nth, bool runs) {
  View &view = m.views[b];
  Write write = view.buffer[nth];
  uint before[2] = {};
  for (uint k = 0; k < write.words; k++) {
    uint at = write.word + k;
    if (!runs) std::swap(m.words[at], view.hidden[at]);
    before[k] = view.hidden[at];
    view.write_of[at] = 0;
  }
  if (nth + 1 < view.buffer.size()) {
    view.buffer[nth] = view.buffer.back();
    const Write &moved = view.buffer[nth];
    for (uint k = 0; k < moved.words; k++) view.write_of[moved.word + k] = nth + 1;
  }
  view.buffer.pop_back();
  leave_stale(m, b, write.word, write.words, before[0], before[1]);
}

// Makes stale words current.
void refresh(Machine &m, View &view, Stale stale, bool runs) {
  for (uint at = stale.word; at < stale.word + stale.words; at++) {
    if (!view.is_stale[at]) continue;
    view.is_stale[at] = 0;
    if (runs) m.words[at] = view.hidden[at];
  }
}
void refresh_all(Machine &m, View &view, bool runs) {
  for (Stale stale : view.stale) refresh(m, view, stale, runs);
  view.stale.clear();
}

// Gives the arena a block's view, or takes it away.
void swap_view(Machine &m, View &view) {
  for (const Write &write : view.buffer)
    for (uint k = 0; k < write.words; k++)
      std::swap(m.words[write.word + k], view.hidden[write.word + k]);
  size_t kept = 0;
  for (Stale stale : view.stale) {
    // One of two may be current by now.
    Stale left = {stale.word, 0};
    for (uint at = stale.word; at < stale.word + stale.words; at++) {
      if (!view.is_stale[at]) continue;
      std::swap(m.words[at], view.hidden[at]);
      if (left.words == 0) left.word = at;
      left.words += 1;
    }
    if (left.words > 0) view.stale[kept++] = left;
  }
  view.stale.resize(kept);
}

// A share of 256, of which none and all are likely.
uint share(Machine &m) {
  constexpr uint SHARES[] = {0, 0, 20, 128, 256};
  return SHARES[below(m, 5)];
}

// Makes some writes of a block that does not run visible.
void make_some_visible(Machine &m, uint b) {
  View &view = m.views[b];
  uint of_256 = share(m);
  for (uint nth = view.buffer.size(); of_256 > 0 && nth-- > 0;)
    if (below(m, 256) < of_256) make_visible(m, b, nth, false);
}

void make_all_visible(Machine &m) {
  for (uint b = 0; b < m.count; b++)
    while (!m.views[b].buffer.empty()) make_visible(m, b, m.views[b].buffer.size() - 1, false);
  for (View &view : m.views) refresh_all(m, view, false);
}

void draw_turn(Machine &m) {
  // Short ones and long ones, of which each may change what the other reads.
  constexpr uint FACTORS[] = {1, 1, 10, 100};
  double uniform = (below(m, 1 << 20) + 1) / (double)(1 << 20);
  m.countdown = 1 + (long)(-std::log(uniform) * m.mean_turn * FACTORS[below(m, 4)]);
}

// The block that goes on.
uint next_block(Machine &m) {
  if (below(m, 256) < m.late_share)
    m.views[below(m, m.count)].late = below(m, 2u << below(m, MOST_LATE));
  for (uint tries = 0;; tries++) {
    uint b = below(m, m.count);
    View &view = m.views[b];
    if (view.is_finished) continue;
    if (view.late > 0 && tries < 4 * m.count) {
      view.late -= 1;
      continue;
    }
    return b;
  }
}

// Another block goes on, or this one again. The arena is nobody's.
void hand_over(Machine &m) {
  for (uint b = 0; b < m.count; b++)
    if (b == me || below(m, 4) == 0) make_some_visible(m, b);
  if (m.idle > IDLE_FOR_ALL * m.count) make_all_visible(m);
  if (m.idle > IDLE_FOR_EVER || m.turns.switches > MOST_SWITCHES) m.is_hung = true;
  uint next = next_block(m);
  View &view = m.views[next];
  uint of_256 = share(m);
  for (Stale stale : view.stale)
    if (below(m, 256) < of_256) refresh(m, view, stale, false);
  swap_view(m, view);
  draw_turn(m);
  m.acquires = 0;
  uint before = me;
  if (next == before) return;
  view.turn.give();
  if (!m.views[before].is_finished) m.views[before].turn.await();
}

void change_turns(Machine &m) {
  m.turns.switches += 1;
  swap_view(m, m.views[me]);
  hand_over(m);
  if (m.is_hung) _longjmp(m.views[me].escape, 1);
  // Other threads of the block may go first, too.
  if (below(m, 2)) leave_coroutine();
}

void count_access(Machine &m, int weight) {
  m.countdown -= weight;
  if (m.countdown <= 0) change_turns(m);
}

bool is_covered(const Write &write) {
  uint thread = threadIdx.x;
  return write.thread == thread || write.block_meetings != block->all.number ||
         (write.thread / 32 == thread / 32 &&
          write.warp_meetings != block->warps[thread / 32].number);
}

void add_write(Machine &m, View &view, uint word, uint words) {
  uint thread = threadIdx.x;
  for (uint k = 0; k < words; k++) {
    uint at = word + k;
    if (view.is_stale[at])
      view.is_stale[at] = 0;
    else
      view.hidden[at] = m.words[at];
    view.write_of[at] = view.buffer.size() + 1;
  }
  view.buffer.push_back({word, words, thread, block->all.number, block->warps[thread / 32].number});
  m.turns.delayed_writes += 1;
}

void note_write(Machine &m, uint word, uint words) {
  View &view = m.views[me];
  m.idle = m.acquires = 0;
  bool is_new = true;
  for (uint k = 0; k < words; k++) {
    uint at = word + k, known = view.write_of[at];
    if (!known) continue;
    is_new = false;
    Write &write = view.buffer[known - 1];
    write.thread = threadIdx.x;
    write.block_meetings = block->all.number;
    write.warp_meetings = block->warps[threadIdx.x / 32].number;
  }
  if (is_new) return add_write(m, view, word, words);
  for (uint k = 0; k < words; k++)
    if (!view.write_of[word + k]) add_write(m, view, word + k, 1);
}

bool is_in_arena(const volatile void *at) {
  return (size_t)((const volatile char *)at - all_arenas) < ARENAS * ARENA_BYTES;
}
// The words of an access.
void find_words(const Machine &m, const volatile void *at, size_t bytes, uint &word, uint &words) {
  size_t offset = (const volatile char *)at - (const char *)m.words;
  word = offset / 4;
  words = (offset + bytes + 3) / 4 - word;
}

inline void read(const void *at, size_t) {
  if (is_in_arena(at) && machine && !in_atomic) count_access(*machine, 1);
}
void write_in_arena(void *at, size_t bytes) {
  if (!machine || in_atomic) return;
  Machine &m = *machine;
  uint word, words;
  find_words(m, at, bytes, word, words);
  count_access(m, 1);
  for (; words > 2; word++, words--) note_write(m, word, 1);
  note_write(m, word, words);
}
inline void write(void *at, size_t bytes) {
  if (is_in_arena(at)) write_in_arena(at, bytes);
}

void run(Machine &m, uint b, const std::function<void()> &kernel) {
  machine = &m;
  me = b;
  View &view = m.views[b];
  view.turn.await();
  if (!m.is_hung && !_setjmp(view.escape)) {
    m.blocks[b].kernel = kernel;
    run_block(m.blocks[b], {m.count}, {b, 0, 0});
    swap_view(m, view);
  }
  block = nullptr;
  while (!view.buffer.empty()) make_visible(m, b, view.buffer.size() - 1, false);
  refresh_all(m, view, false);
  view.is_finished = true;
  m.idle = 0;
  machine = nullptr;
  if (--m.left == 0)
    m.end.give();
  else
    hand_over(m);
}

} // namespace

void let_others() {
  if (!machine) return;
  Machine &m = *machine;
  m.idle += 1;
  m.views[me].late += below(m, SHORT_WAIT);
  change_turns(m);
}

void fence() {
  if (!machine) return;
  Machine &m = *machine;
  View &view = m.views[me];
  if (!view.buffer.empty() || !view.stale.empty()) count_access(m, WEIGHT_OF_POINT);
  // One after the other; meanwhile, other blocks may go on.
  auto finish = [&](uint nth) {
    if (nth >= view.buffer.size() || !is_covered(view.buffer[nth])) return;
    make_visible(m, me, nth, true);
    count_access(m, WEIGHT_IN_FENCE);
  };
  for (uint some = min(view.buffer.size(), SOME_FIRST); some > 0; some--)
    finish(below(m, view.buffer.size() + 1));
  for (uint nth = view.buffer.size(); nth-- > 0;) finish(nth);
  refresh_all(m, view, true);
}

void acquire() {
  if (!machine) return;
  Machine &m = *machine;
  refresh_all(m, m.views[me], true);
  if (++m.acquires >= MANY_ACQUIRES)
    let_others();
  else
    count_access(m, WEIGHT_OF_POINT);
}

void begin_atomic(const volatile void *at, size_t bytes) {
  if (!is_in_arena(at) || !machine) return;
  Machine &m = *machine;
  View &view = m.views[me];
  uint word, words;
  find_words(m, at, bytes, word, words);
  count_access(m, WEIGHT_OF_POINT);
  for (uint k = 0; k < words; k++) {
    if (view.write_of[word + k]) make_visible(m, me, view.write_of[word + k] - 1, true);
    refresh(m, view, {word + k, 1}, true);
    atomic.before[k] = m.words[word + k];
  }
  atomic.word = word;
  atomic.words = words;
  in_atomic = true;
}

void end_atomic() {
  if (!in_atomic) return;
  in_atomic = false;
  Machine &m = *machine;
  m.idle = m.acquires = 0;
  leave_stale(m, me, atomic.word, atomic.words, atomic.before[0], atomic.before[1]);
}

uint thread_in_order(uint n, uint threads) {
  if (!machine) return backwards ? threads - 1 - n : n;
  // Another order for each meeting: ascending, descending, or neither.
  uint turn = block->all.number * 7 + machine->turns.switches;
  if (turn % 4 == 0) return n;
  if (turn % 4 == 1) return threads - 1 - n;
  return (n * (2 * (turn % 61) + 1) + turn) % threads;
}

void *take_arena(size_t bytes) {
  std::lock_guard<std::mutex> lock(of_machines);
  if (free_arenas.empty() && used_arenas < ARENAS)
    free_arenas.push_back(all_arenas + ARENA_BYTES * used_arenas++);
  if (free_arenas.empty() || bytes > ARENA_BYTES || all_arenas == MAP_FAILED) return nullptr;
  void *arena = free_arenas.back();
  free_arenas.pop_back();
  return arena;
}
void give_arena(void *arena) {
  std::lock_guard<std::mutex> lock(of_machines);
  free_arenas.push_back(arena);
}

bool launch_together(uint blocks, uint threads, void *arena, size_t bytes, unsigned long long seed,
                     Turns &turns, std::function<void()> kernel) {
  // Stacks and views are kept for the next launch.
  std::unique_ptr<Machine> kept;
  {
    std::lock_guard<std::mutex> lock(of_machines);
    if (!machines.empty()) {
      kept = std::move(machines.back());
      machines.pop_back();
    }
  }
  if (!kept) kept.reset(new Machine);
  Machine &m = *kept;
  m.words = (uint *)arena;
  if (m.views.size() < blocks) {
    m.views = std::vector<View>(blocks);
    m.blocks = std::vector<Block>(blocks);
  }
  m.count = m.left = blocks;
  m.turns = {};
  m.random = seed | 1ull << 63;
  for (uint k = 0; k < 4; k++) draw(m);
  constexpr uint MEAN_TURNS[] = {10, 40, 100, 400}, SHARES[] = {0, 40, 128, 256},
                 LATE_SHARES[] = {0, 0, 2, 20};
  m.mean_turn = MEAN_TURNS[below(m, 4)];
  m.stale_share = SHARES[below(m, 4)];
  m.late_share = LATE_SHARES[below(m, 4)];
  m.idle = m.acquires = 0;
  m.is_hung = false;
  for (uint b = 0; b < blocks; b++) {
    View &view = m.views[b];
    prepare_block(m.blocks[b], threads);
    size_t words = (bytes + 3) / 4;
    if (view.hidden.size() < words) {
      view.hidden.resize(words);
      view.write_of.resize(words);
      view.is_stale.resize(words);
    }
    view.is_finished = false;
    view.late = 0;
  }
  std::vector<std::thread> running;
  for (uint b = 0; b < blocks; b++) running.emplace_back([&m, b, &kernel] { run(m, b, kernel); });
  draw_turn(m);
  m.views[below(m, blocks)].turn.give();
  m.end.await();
  for (std::thread &thread : running) thread.join();
  turns = m.turns;
  bool has_ended = !m.is_hung;
  std::lock_guard<std::mutex> lock(of_machines);
  machines.push_back(std::move(kept));
  return has_ended;
}

#include "accesses.hpp"
