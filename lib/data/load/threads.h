// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/pictures/dataset.h"
#include "image/image.h"

namespace gantrain {

// Starts a thread that blocks all signals from its first instruction on. `body` must not throw.
std::thread start_worker(std::function<void()> body);

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
// The threads run ahead by at most slots() pieces. Returns false where `stop`, asked before each
// piece and 20 times a second, returned true. Rethrows what `make` or `take` throws, after all
// threads have ended.
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

struct BadPicture {
  int64_t picture = 0;
  std::string reason;  // includes the file's name
};

struct ScanResult {
  bool color = false;                                    // at least one good picture is not grey
  int64_t alpha = 0;                                     // good pictures with alpha
  int64_t stack = 0;                                     // channels of the first good stack, or 0
  int64_t wide = 0, narrow = 0;                          // good pictures of 16 and of 8 bits
  std::map<std::pair<int64_t, int64_t>, int64_t> sizes;  // width, height -> good pictures
  std::vector<BadPicture> bad;                           // in the order of the pictures
};

// Returns which of `count` pictures to look at: all, or `limit` evenly spaced ones.
std::vector<int64_t> evenly_spaced(int64_t count, int64_t limit);

// Calls `look` for the pictures on several threads; a UserError that it throws makes the picture
// bad. With `stop_at_bad` the scan ends after the first bad picture, though not before a second has
// passed. Throws UserError(kStopped) where `stop` returns true, and what else `look` throws.
ScanResult scan_pictures(const std::vector<int64_t>& pictures,
                         const std::function<ImageInfo(int64_t)>& look,
                         bool stop_at_bad,
                         const StopCheck& stop);

}  // namespace gantrain
