// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "data/dataset.h"

namespace gantrain {

// How much is made at a time.
struct WorkSize {
  int64_t count = 0;    // pieces of work
  int64_t threads = 1;  // that make them
};

// What is done with a piece, by its number and the slot for its result. There are slots() of them.
using WorkOnSlot = std::function<void(int64_t piece, size_t slot)>;

// Returns how many results may be waiting at a time.
size_t slots(const WorkSize& size);

// Makes the pieces 0, 1, ... on several threads and takes them in this order on the calling thread.
// The threads run ahead by at most slots() pieces, so that memory stays bounded. Ends early, after
// the pieces that are being made, where `stop`, asked before each piece and 20 times a second,
// returns true: returns false then. Rethrows what `make` or `take` throws, after all threads have
// ended.
bool work_in_order(const WorkSize& size,
                   const WorkOnSlot& make,
                   const WorkOnSlot& take,
                   const StopCheck& stop);

// The same with results that are values.
template <class Result>
bool work_in_order(const WorkSize& size,
                   const std::function<Result(int64_t piece)>& make,
                   const std::function<void(int64_t piece, Result&& result)>& take,
                   const StopCheck& stop) {
  std::vector<Result> results(slots(size));
  return work_in_order(
      size,
      WorkOnSlot([&](int64_t piece, size_t slot) { results[slot] = make(piece); }),
      WorkOnSlot([&](int64_t piece, size_t slot) { take(piece, std::move(results[slot])); }),
      stop);
}

}  // namespace gantrain
