// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// One call of the process group, such as an all-reduce. All ranks make the same ones in the same
// order, and each rank counts them from 1 on.
struct Collective {
  static constexpr int64_t kUnknown = -1;

  int64_t number = 0;
  std::string what;     // "all-reduce"
  std::string purpose;  // "gradients"
  std::string phase;    // of the rank when it entered the collective, for example "D backward"
  int64_t tensors = 0;
  int64_t bytes = 0;     // of these tensors
  int64_t begun_ns = 0;  // monotonic_ns() when the rank entered it
  int64_t ended_ns = 0;  // 0: it has not ended; kUnknown: on a GPU nobody waits for its end
};

// What a rank is at: its phase, and the last collectives that it has entered. It lies in memory
// that the launcher shares with the ranks, so it outlives the rank. Only its own rank writes to it:
// from one thread at a time, except ended(). Any process may read it. The memory must be zero when
// the object is made there, which touches none of it.
class RankTrace {
 public:
  static constexpr size_t kPhaseBytes = 32;
  static constexpr int64_t kKept = 1000;  // collectives

  // Only the first 31 bytes are kept.
  void set_phase(std::string_view phase);
  std::string phase() const;

  // Says that the rank has entered as many collectives as `number`, of which nothing more is known.
  void skip_to(int64_t number) { entered_.store(number, std::memory_order_release); }
  // Says that the rank enters its next collective now. Of `what` the first 15 bytes are kept and of
  // `purpose` the first 31. `watched`: ended() will follow. Returns the collective's number.
  int64_t enter(std::string_view what,
                std::string_view purpose,
                int64_t tensors,
                int64_t bytes,
                bool watched);
  void ended(int64_t number);  // from any thread

  int64_t entered() const { return entered_.load(std::memory_order_acquire); }
  // Those that are kept, the oldest first.
  std::vector<Collective> collectives() const;

 private:
  struct Entry {
    int64_t number, tensors, bytes, begun_ns, ended_ns;
    char what[16], purpose[32], phase[kPhaseBytes];
  };
  Entry& entry(int64_t number) { return entries_[static_cast<size_t>(number % kKept)]; }

  std::array<std::atomic<uint64_t>, kPhaseBytes / 8> phase_{};
  std::atomic<int64_t> entered_{0};
  std::array<Entry, kKept> entries_;  // zeros, as they were found
};

// Says in words which collective it is: "all-reduce 1234 (gradients, 3 tensors, 4.2 MB, phase "D
// backward")".
std::string to_text(const Collective& collective);

// Says what the rank was at by its last collective, at the time `now_ns`: "12 s in all-reduce 1234
// (...)", "12 s after all-reduce 1234 (...)"; "" where it has entered none that is known.
std::string standing_text(const RankTrace& trace, int64_t now_ns);

// Where ranks have entered different collectives under one number, says which ones; else "". The
// ranks' numbers begin with `first_rank`.
std::string mismatch_text(const std::vector<const RankTrace*>& ranks, int64_t first_rank);

}  // namespace gantrain
