// CUDA C++ on the processor: what stands in front of kernels that TVM's code generator printed.
//
// Every thread of a block is a fibre; one runs until it waits for others, then the next does, in
// ascending or descending order. A barrier that is missing therefore changes results: between two
// barriers one order runs all of a thread before its neighbour, the other after it. Blocks run one
// by one, in the same orders, so that one may wait for no other. A shuffle takes values of lanes
// that its mask names, and __activemask() names the thread's own lane alone. What hardware leaves
// undefined is a NaN (shared and local memory before it is written) or an error with a sentence: an
// access outside of an array, one of a float4 that is not aligned, and threads that wait at
// different barriers.

// C's own headers alone: of C++ they took as long to read as the rest of a small kernel does to
// compile. These wrap those of C.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __builtin_assume(test) ((test) ? (void)0 : abort())
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define CUDART_INF ((double)INFINITY)
#define CUDART_NAN ((double)NAN)

template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;

#define EMULATION_VECTORS(name, type)                                              \
  struct alignas(2 * sizeof(type)) name##2 { type x, y; };                         \
  struct alignas(4 * sizeof(type)) name##4 { type x, y, z, w; };                   \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; }          \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
EMULATION_VECTORS(float, float)
EMULATION_VECTORS(int, int)
EMULATION_VECTORS(uint, uint)
EMULATION_VECTORS(short, short)
EMULATION_VECTORS(ushort, ushort)
EMULATION_VECTORS(char, signed char)
EMULATION_VECTORS(uchar, uchar)
static inline float __int_as_float(int bits) { float v; memcpy(&v, &bits, 4); return v; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
// of tvmconv/tir/cuda/extrema.py
static inline float tvmconv_maximum(float a, float b) { return a > b || a != a ? a : b; }
static inline float tvmconv_minimum(float a, float b) { return a < b || a != a ? a : b; }

namespace emulation {

struct Index { unsigned x, y, z; };

enum State { READY, AT_BARRIER, AT_WARP, DONE };

struct Fibre {
  ucontext_t start;
  jmp_buf at;
  bool entered;
  State state;
  int line;      // of the barrier that it waits at
  int shuffles;  // and mma.sync that it took part in: even and odd ones have slots of their own
  uint64_t slot[2];
  float operands[2][12];  // of mma.h
};

static const size_t STACK = 64 << 10, PAGE = 4096;
static const int MAX_THREADS = 1024;
static Fibre fibres[MAX_THREADS];
static char *stacks;
static jmp_buf scheduler;
static int current, count;
static bool descending, failed;
static char message[512];
static void (*kernel)(void **);
static void **arguments;
static long blocks;  // that were begun
static char *dynamic_shared;
static size_t dynamic_bytes;
// what kernels may touch, in order; nothing listed: anything
struct Piece { char *first; size_t bytes; };
static Piece *memory;
static size_t pieces;

static void run_next() { _longjmp(scheduler, 1); }

static void wait(State state, int line) {
  Fibre &me = fibres[current];
  me.state = state;
  me.line = line;
  if (!_setjmp(me.at)) run_next();
}

__attribute__((noinline, cold)) static void fail(const char *what, const char *where, long at,
                                                 long size) {
  if (!failed) {
    snprintf(message, sizeof message, "%s %s: byte %ld of %ld, by thread %d", what, where, at, size,
             current);
    failed = true;
  }
  run_next();
}

__attribute__((noinline, cold)) static void unnamed(int lane) {
  if (!failed)
    snprintf(message, sizeof message,
             "lane %d, that the shuffle's mask does not name, takes part in it, by thread %d", lane,
             current);
  failed = true;
  run_next();
}

template <class T> static inline void poison(T &array) { memset(&array, 0xff, sizeof array); }

// A pointer that knows its array: what TVM prints for it is `p[i]` and `(float4*)(p + i)`.
template <class T> struct Pointer {
  T *at;
  char *first;
  size_t bytes;
  const char *name;
  template <class U> U *check(long index) const {
    long offset = (char *)(at + index) - first;
    if (__builtin_expect((size_t)offset > bytes - sizeof(U) || bytes < sizeof(U), 0))
      fail("access outside of", name, offset, (long)bytes);
    if (alignof(U) > alignof(T) && __builtin_expect((uintptr_t)(at + index) % alignof(U) != 0, 0))
      fail("vector that is not aligned in", name, offset, (long)bytes);
    return (U *)(at + index);
  }
  T &operator[](long index) const { return *check<T>(index); }
  T &operator*() const { return *check<T>(0); }
  Pointer operator+(long index) const { return {at + index, first, bytes, name}; }
  template <class U> explicit operator U *() const { return check<U>(0); }
};

// of tvmconv/tir/cuda/double_buffers.py
template <class T> static inline Pointer<T> tvmconv_turned(Pointer<T> array, int bytes) {
  return {(T *)((char *)array.at + bytes), array.first, array.bytes, array.name};
}

// How many pieces of memory begin at a place or before it.
static size_t pieces_until(const char *place) {
  size_t low = 0, high = pieces;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (memory[middle].first <= place) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void remember(char *first, size_t bytes) {
  size_t place = pieces_until(first);
  if (!place || memory[place - 1].first != first) {
    memory = (Piece *)realloc(memory, (pieces + 1) * sizeof *memory);
    if (!memory) abort();
    memmove(memory + place + 1, memory + place, (pieces++ - place) * sizeof *memory);
    ++place;
  }
  memory[place - 1] = {first, bytes};
}

static void forget(char *first) {
  size_t place = pieces_until(first);
  if (!place || memory[place - 1].first != first) return;
  memmove(memory + place - 1, memory + place, (pieces-- - place) * sizeof *memory);
}

template <class T> static Pointer<T> argument(void *value, const char *name) {
  T *at = *(T **)value;
  if (!pieces) return {at, nullptr, SIZE_MAX, name};
  size_t place = pieces_until((char *)at);
  if (!place) return {at, (char *)at, 0, name};
  const Piece &piece = memory[place - 1];
  if ((char *)at >= piece.first + piece.bytes) return {at, (char *)at, 0, name};
  return {at, piece.first, piece.bytes, name};
}

// The first thread of a block that comes here poisons the array; `known` is how many were begun then.
template <class T, size_t N>
static Pointer<T> shared(T (&array)[N], long &known, const char *name) {
  if (known != blocks) poison(array);
  known = blocks;
  return {array, (char *)array, sizeof array, name};
}

template <class T> static Pointer<T> shared_of_launch(const char *name) {
  return {(T *)dynamic_shared, dynamic_shared, dynamic_bytes, name};
}

template <class T> static T exchange(unsigned mask, T value, int lane, bool inside, int line) {
  static_assert(sizeof(T) <= 8, "shuffled values have 8 bytes at most");
  Fibre &me = fibres[current];
  const int own = current % 32, from = inside ? lane : own;
  if (!(mask >> own & mask >> from & 1)) unnamed(mask >> own & 1 ? from : own);
  int parity = me.shuffles++ & 1;
  memcpy(&me.slot[parity], &value, sizeof value);
  wait(AT_WARP, line);
  int other = current / 32 * 32 + lane;
  T result = value;
  if (inside && other < count) memcpy(&result, &fibres[other].slot[parity], sizeof result);
  return result;
}

// A fibre serves its thread of every block: to make one takes longer than many a kernel.
static void enter() {
  for (;;) {
    kernel(arguments);
    wait(DONE, 0);
  }
}

// Whether all threads of `begin` to `end` that still run wait, those of `inner` at one place.
static bool release(int begin, int end, State inner, State outer) {
  int line = 0;
  for (int i = begin; i < end; ++i) {
    Fibre &f = fibres[i];
    if (f.state == DONE || f.state == outer) continue;
    if (f.state != inner) return false;
    if (line && f.line != line) {
      snprintf(message, sizeof message, "threads wait at different barriers: lines %d and %d",
               line, f.line);
      failed = true;
      return false;
    }
    line = f.line;
  }
  if (!line) return false;
  for (int i = begin; i < end; ++i)
    if (fibres[i].state == inner) fibres[i].state = READY;
  return true;
}

static bool allocate_stacks() {
  void *all = mmap(nullptr, STACK * count, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return false;
  stacks = (char *)all;
  // a thread that needs more stack than it has meets a page that it may not touch
  for (int i = 0; i < count; ++i) mprotect(stacks + STACK * i, PAGE, PROT_NONE);
  return true;
}

// A process may have 65530 pieces of memory, and every guarded stack is two, in each library.
static void free_stacks() {
  for (Fibre &f : fibres) f.entered = false;
  munmap(stacks, STACK * count);
}

template <class Value>
void store(float *place, const Value &value) {
  memcpy(place, &value, sizeof value);
}

}  // namespace emulation

// of tvmconv/tir/cuda/predicated_stores.py: the place is none where the test fails
#define tvmconv_store(place, value, inside) \
  ((inside) ? emulation::store(place, value) : (void)0)

// of tvmconv/tir/cuda/tap_tables.py
template <const auto &table, const auto &zeros, bool, class Data>
static inline Data tvmconv_tap(Data data, int first, int inside, int slice) {
  const int2 tap = table[slice];
  if (inside & tap.y) return data + (first + tap.x);
  return {(float *)zeros, (char *)zeros, sizeof zeros, "zeros"};
}

static emulation::Index threadIdx, blockIdx, blockDim, gridDim;

#define __syncthreads() emulation::wait(emulation::AT_BARRIER, __LINE__)
#define __syncwarp(...) emulation::wait(emulation::AT_WARP, __LINE__)
#define EMULATION_LANE (emulation::current % 32)
// nothing promises that any other lane is there, too
#define __activemask() (1u << EMULATION_LANE)
#define __shfl_sync(mask, value, lane, width)                                                   \
  emulation::exchange(mask, value, EMULATION_LANE / (width) * (width) + (lane) % (width), true, \
                      __LINE__)
#define __shfl_xor_sync(mask, value, bits, width)                                               \
  emulation::exchange(mask, value, EMULATION_LANE ^ (bits), true, __LINE__)
#define __shfl_down_sync(mask, value, delta, width)                                             \
  emulation::exchange(mask, value, EMULATION_LANE + (int)(delta),                               \
                      EMULATION_LANE % (width) + (int)(delta) < (width), __LINE__)
#define __shfl_up_sync(mask, value, delta, width)                                               \
  emulation::exchange(mask, value, EMULATION_LANE - (int)(delta),                               \
                      EMULATION_LANE % (width) >= (int)(delta), __LINE__)

#include "mma.h"

namespace emulation {

static void place(int thread) {
  current = thread;
  threadIdx.x = thread % blockDim.x;
  threadIdx.y = thread / blockDim.x % blockDim.y;
  threadIdx.z = thread / (blockDim.x * blockDim.y);
}

static void resume(int thread) {
  Fibre &f = fibres[thread];
  place(thread);
  if (_setjmp(scheduler)) return;
  if (f.entered) _longjmp(f.at, 1);
  f.entered = true;
  setcontext(&f.start);
}

// Run a warp until all of its threads are at a barrier of the block, or done: what they exchange
// among each other holds no other warp back. Whether any of them moved.
static bool run_warp(int first) {
  const int end = min(first + 32, count);
  volatile bool moved = false;
  do {
    for (volatile int j = first; j < end; ++j) {
      int thread = descending ? first + end - 1 - j : j;
      if (fibres[thread].state != READY) continue;
      moved = true;
      resume(thread);
      if (failed) return moved;
    }
  } while (release(first, end, AT_WARP, AT_BARRIER));
  return moved;
}

static bool run_block() {
  ++blocks;
  if (dynamic_bytes) memset(dynamic_shared, 0xff, dynamic_bytes);
  for (int i = 0; i < count; ++i) {
    Fibre &f = fibres[i];
    f.state = READY;
    f.shuffles = 0;
    if (f.entered) continue;
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = stacks + STACK * i + PAGE;
    f.start.uc_stack.ss_size = STACK - PAGE;
    f.start.uc_link = nullptr;
    makecontext(&f.start, enter, 0);
  }
  const int warps = (count + 31) / 32;
  volatile bool moved = true;
  while (moved) {
    moved = false;
    for (volatile int j = 0; j < warps; ++j) {
      if (run_warp(32 * (descending ? warps - 1 - j : j))) moved = true;
      if (failed) return false;
    }
    if (!moved && release(0, count, AT_BARRIER, DONE)) moved = true;
    if (failed) return false;
  }
  for (int i = 0; i < count; ++i)
    if (fibres[i].state != DONE) {
      snprintf(message, sizeof message, "thread %d waits for ever at line %d", i, fibres[i].line);
      failed = true;
      return false;
    }
  return true;
}

static bool run_grid() {
  const size_t all = (size_t)gridDim.x * gridDim.y * gridDim.z;
  for (size_t next = 0; next < all; ++next) {
    size_t block = descending ? all - 1 - next : next;
    blockIdx.x = block % gridDim.x;
    blockIdx.y = block / gridDim.x % gridDim.y;
    blockIdx.z = block / gridDim.x / gridDim.y;
    if (!run_block()) return false;
  }
  return true;
}

struct Entry { const char *name; void (*call)(void **); int parameters; };
extern const Entry entries[];

static int launch(const char *name, const unsigned *grid, const unsigned *block, size_t bytes,
                  void **given, int order) {
  const Entry *entry = entries;
  while (entry->name && strcmp(entry->name, name)) ++entry;
  failed = false;
  size_t threads = (size_t)block[0] * block[1] * block[2];
  if (!entry->name) {
    snprintf(message, sizeof message, "there is no kernel %s", name);
    return 1;
  }
  if (!grid[0] || !grid[1] || !grid[2] || grid[0] > INT32_MAX || grid[1] > 65535 ||
      grid[2] > 65535) {
    snprintf(message, sizeof message, "%s: a grid of %ux%ux%u blocks cannot be launched", name,
             grid[0], grid[1], grid[2]);
    return 1;
  }
  if (!threads || threads > MAX_THREADS || block[2] > 64) {
    snprintf(message, sizeof message, "%s: a block of %ux%ux%u threads cannot be launched", name,
             block[0], block[1], block[2]);
    return 1;
  }
  kernel = entry->call;
  arguments = given;
  descending = order;
  count = (int)threads;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  dynamic_shared = (char *)malloc(bytes + 1);
  dynamic_bytes = bytes;
  if (!dynamic_shared || !allocate_stacks()) {
    free(dynamic_shared);
    snprintf(message, sizeof message, "no memory for the stacks of threads");
    return 1;
  }
  bool done = run_grid();
  free_stacks();
  free(dynamic_shared);
  if (done) return 0;
  size_t end = strlen(message);
  snprintf(message + end, sizeof message - end, " (kernel %s, block %u %u %u)", name, blockIdx.x,
           blockIdx.y, blockIdx.z);
  return 1;
}

}  // namespace emulation

extern "C" {
// Run a kernel. `arguments` are pointers to its parameters, as cuLaunchKernel takes them.
// Returns 0, or 1 with a sentence in emulation_message().
int launch(const char *name, const unsigned *grid, const unsigned *block, size_t shared,
           void **arguments) {
  return emulation::launch(name, grid, block, shared, arguments, 0);
}

// The same, with the threads of a block in descending order.
int launch_descending(const char *name, const unsigned *grid, const unsigned *block, size_t shared,
                      void **arguments) {
  return emulation::launch(name, grid, block, shared, arguments, 1);
}

// How many parameters a kernel has; -1 if there is none of that name.
int emulation_parameters(const char *name) {
  for (const emulation::Entry *entry = emulation::entries; entry->name; ++entry)
    if (!strcmp(entry->name, name)) return entry->parameters;
  return -1;
}

const char *emulation_message() { return emulation::message; }

// Name a piece of memory that kernels may touch; without any they may touch all.
void emulation_remember(void *first, size_t bytes) { emulation::remember((char *)first, bytes); }

void emulation_forget(void *first) { emulation::forget((char *)first); }
}
