// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "ops/gpu/number_types.h"

#ifndef __CUDACC__
#include <list>
#include <map>
#include <string>
#include <typeinfo>
#endif

struct CUstream_st;

// How the kernels of this folder run. A kernel is a body: a plain struct that holds its arguments
// and computes one thread's part. Each .cu file is compiled twice: by nvcc for the GPU, and as C++
// for tests, where launch() runs all blocks and threads in a loop. So one body and one choice of
// body serve both, and a machine without a GPU proves the arithmetic.

namespace gantrain::cuda_kernels {

using Stream = CUstream_st*;  // cudaStream_t

// Which thread of which block a body is called for.
struct Place {
  int64_t block;
  int thread;

  // The number of this thread among those of all blocks of so many threads.
  GANTRAIN_BOTH int64_t global(int threads) const { return block * threads + thread; }
};

// Two kinds of bodies. One without barriers has
//   static constexpr int kThreads;              // of a block
//   static constexpr int kBlocks;               // of a multiprocessor, at least; may be left out
//   void operator()(const Place& place) const;
// One whose threads share memory works in steps, with a barrier after each:
//   static constexpr int kThreads;
//   struct Shared;                              // one per block, at most 48 KiB, not initialised
//   struct Local;                               // one per thread, kept from step to step
//   int steps() const;
//   void step(int number, const Place& place, Shared& shared, Local& local) const;
template <class Body>
concept WorksInSteps = requires {
  typename Body::Shared;
};

#ifdef __CUDACC__

template <class Body>
constexpr int least_blocks() {
  if constexpr (requires { Body::kBlocks; }) {
    return Body::kBlocks;
  } else {
    return 0;
  }
}

template <class Body>
__global__ void __launch_bounds__(Body::kThreads, least_blocks<Body>())
    run_body(const __grid_constant__ Body body) {
  const Place place{static_cast<int64_t>(blockIdx.x), static_cast<int>(threadIdx.x)};
  if constexpr (WorksInSteps<Body>) {
    __shared__ typename Body::Shared shared;
    typename Body::Local local;
    for (int number = 0; number < body.steps(); ++number) {
      if (number > 0) __syncthreads();
      body.step(number, place, shared, local);
    }
  } else {
    body(place);
  }
}

// Launches `blocks` blocks on the stream; nothing if there are none. An error is left for
// cudaGetLastError().
template <class Body>
void launch(const Body& body, int64_t blocks, Stream stream) {
  if (blocks == 0) return;
  run_body<<<static_cast<unsigned>(blocks), Body::kThreads, 0, stream>>>(body);
}

#else

// In which order the host visits the blocks of a launch and, in each step, the threads of a block:
// 0 ascending, 1 descending, others the seed of a shuffle. No result may depend on it.
inline unsigned host_order = 0;

// Of how many samples side by side only the first and the last are wanted: of a launch, the blocks
// at both ends alone are run, as many as such a sample may need. 0: all blocks. For maps larger
// than the host could compute.
inline int64_t host_samples = 0;

// Runs each thread's steps in launch()'s place, so that a thread sanitizer can take each thread for
// one of its own (test/cuda_kernels/races.cpp).
struct HostWatch {
  virtual ~HostWatch() = default;
  using Step = void (*)(void* block, int number, const Place& place);
  virtual void run(Step step, void* block, int number, const Place& place) = 0;
  virtual void end() = 0;  // of the launch
};
inline HostWatch* host_watch = nullptr;

// How often bodies were launched, by the names of their types.
inline std::map<std::string, int64_t> host_launched;

template <class Use>
void visit(int64_t count, const Use& use) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  if (host_order == 1) std::reverse(all.begin(), all.end());
  if (host_order > 1) std::shuffle(all.begin(), all.end(), std::mt19937(host_order));
  for (const int64_t i : all) use(i);
}

// A block with its memory. What an earlier block left there is of no use, as on a GPU: bytes that
// are a NaN.
template <class Body>
struct SteppingBlock {
  Body body;
  std::vector<typename Body::Local> locals{Body::kThreads};
  typename Body::Shared shared;

  explicit SteppingBlock(const Body& its_body) : body(its_body) {
    std::memset(static_cast<void*>(locals.data()), 0xff, sizeof(locals[0]) * locals.size());
    std::memset(static_cast<void*>(&shared), 0xff, sizeof shared);
  }
  int steps() const { return body.steps(); }
  void step(int number, const Place& place) {
    body.step(number, place, shared, locals[static_cast<size_t>(place.thread)]);
  }
};

template <class Body>
struct PlainBlock {
  Body body;

  explicit PlainBlock(const Body& its_body) : body(its_body) {}
  int steps() const { return 1; }
  void step(int /*number*/, const Place& place) { body(place); }
};

template <class Block>
void run_step(void* block, int number, const Place& place) {
  static_cast<Block*>(block)->step(number, place);
}

template <class Block, class Body>
void run_blocks(const Body& body, int64_t blocks) {
  std::list<Block> all;          // for who watches, blocks have memory at different places
  constexpr int64_t kMore = 20;  // blocks that a sample shares with others
  const int64_t end = host_samples == 0 ? blocks : blocks / host_samples + kMore;
  visit(std::min(blocks, 2 * end), [&](int64_t nth) {
    const int64_t block = nth < end ? nth : std::max(blocks - end, end) + nth - end;
    if (host_watch == nullptr) all.clear();
    Block& own = all.emplace_back(body);
    for (int number = 0; number < own.steps(); ++number) {
      visit(Body::kThreads, [&](int64_t thread) {
        const Place place{block, static_cast<int>(thread)};
        if (host_watch != nullptr) {
          host_watch->run(run_step<Block>, &own, number, place);
        } else {
          own.step(number, place);
        }
      });
    }
  });
  if (host_watch != nullptr) host_watch->end();
}

template <class Body>
void launch(const Body& body, int64_t blocks, Stream /*stream*/) {
  if (blocks > 0) ++host_launched[typeid(Body).name()];
  if constexpr (WorksInSteps<Body>) {
    run_blocks<SteppingBlock<Body>>(body, blocks);
  } else {
    run_blocks<PlainBlock<Body>>(body, blocks);
  }
}

#endif

// n / by, rounded up.
constexpr int64_t blocks_for(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Divides whole numbers below 2^31 by one that is known at launch, by a multiplication (Granlund &
// Montgomery 1994, fig. 4.1).
struct Divider {
  uint32_t divisor = 1;
  uint32_t magic = 0;
  uint32_t shift = 0;

  Divider() = default;
  // A task without numbers may have a size of 0, by which nothing is divided then.
  explicit Divider(int64_t by) : divisor(static_cast<uint32_t>(std::max<int64_t>(by, 1))) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    magic = static_cast<uint32_t>(
        (uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor) / divisor + 1);
  }
  GANTRAIN_BOTH uint32_t quotient(uint32_t n) const {
    const auto high = static_cast<uint32_t>(uint64_t{n} * magic >> 32);
    return (high + n) >> shift;
  }
  GANTRAIN_BOTH uint32_t remainder(uint32_t n) const { return n - quotient(n) * divisor; }
};

// Divides whole numbers up to `most` by one that is known at launch: by a multiplication where they
// are below 2^31.
struct AnyDivider {
  int64_t divisor = 1;
  bool small = true;
  Divider fast;

  AnyDivider() = default;
  AnyDivider(int64_t by, int64_t most) : divisor(by), small((most | by) < int64_t{1} << 31) {
    if (small) fast = Divider(by);
  }
  GANTRAIN_BOTH int64_t quotient(int64_t n) const {
    return small ? static_cast<int64_t>(fast.quotient(static_cast<uint32_t>(n))) : n / divisor;
  }
};

}  // namespace gantrain::cuda_kernels
