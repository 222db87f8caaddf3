// SPDX-License-Identifier: Apache-2.0
#include "util/rank_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "util/system.h"
#include "util/wording.h"

namespace gantrain {

namespace {

template <size_t kBytes>
void copy_to(char (&into)[kBytes], std::string_view text) {
  std::memset(into, 0, kBytes);
  std::memcpy(into, text.data(), std::min(text.size(), kBytes - 1));
}

// A text that was cut off while it was written still ends.
template <size_t kBytes>
std::string text_in(const char (&text)[kBytes]) {
  return {text, strnlen(text, kBytes)};
}

std::string seconds_text(int64_t ns) {
  return fmt::format("{:.1f} s", std::max(0.0, static_cast<double>(ns) / 1e9));
}

// What must be equal on all ranks.
auto kind_of(const Collective& c) { return std::tie(c.what, c.tensors, c.bytes); }

}  // namespace

void RankTrace::set_phase(std::string_view phase) {
  std::array<char, kPhaseBytes> text{};
  std::memcpy(text.data(), phase.data(), std::min(phase.size(), kPhaseBytes - 1));
  for (size_t i = 0; i < phase_.size(); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i * 8, 8);
    phase_[i].store(word, std::memory_order_relaxed);
  }
}

std::string RankTrace::phase() const {
  std::array<char, kPhaseBytes + 1> text{};
  for (size_t i = 0; i < phase_.size(); ++i) {
    const uint64_t word = phase_[i].load(std::memory_order_relaxed);
    std::memcpy(text.data() + i * 8, &word, 8);
  }
  return text.data();
}

int64_t RankTrace::enter(
    std::string_view what, std::string_view purpose, int64_t tensors, int64_t bytes, bool watched) {
  const int64_t number = entered() + 1;
  Entry& into = entry(number);
  into.number = number;
  into.tensors = tensors;
  into.bytes = bytes;
  into.begun_ns = monotonic_ns();
  std::atomic_ref(into.ended_ns).store(watched ? 0 : Collective::kUnknown);
  copy_to(into.what, what);
  copy_to(into.purpose, purpose);
  copy_to(into.phase, phase());
  entered_.store(number, std::memory_order_release);
  return number;
}

// The place may be another collective's by now.
void RankTrace::ended(int64_t number) {
  Entry& of = entry(number);
  if (entered() < number + kKept) std::atomic_ref(of.ended_ns).store(monotonic_ns());
}

std::vector<Collective> RankTrace::collectives() const {
  std::vector<Collective> all;
  for (const Entry& e : entries_) {
    if (e.number == 0) continue;
    all.push_back({e.number,
                   text_in(e.what),
                   text_in(e.purpose),
                   text_in(e.phase),
                   e.tensors,
                   e.bytes,
                   e.begun_ns,
                   e.ended_ns});
  }
  std::ranges::sort(all, {}, &Collective::number);
  return all;
}

std::string to_text(const Collective& c) {
  return fmt::format("{} {} ({}{}{}, {:.1f} kB, phase \"{}\")",
                     c.what,
                     c.number,
                     c.purpose,
                     c.purpose.empty() ? "" : ", ",
                     counted(c.tensors, "tensor"),
                     static_cast<double>(c.bytes) / 1e3,
                     c.phase);
}

std::string standing_text(const RankTrace& trace, int64_t now_ns) {
  const std::vector<Collective> all = trace.collectives();
  if (all.empty()) return "";
  const Collective& last = all.back();
  const bool done = last.ended_ns > 0;
  return fmt::format("{} {} {}",
                     seconds_text(now_ns - (done ? last.ended_ns : last.begun_ns)),
                     done ? "after" : "in",
                     to_text(last));
}

std::string mismatch_text(const std::vector<const RankTrace*>& ranks, int64_t first_rank) {
  std::map<int64_t, std::pair<int64_t, Collective>> first_seen;  // by number
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int64_t rank = first_rank + static_cast<int64_t>(i);
    for (const Collective& own : ranks[i]->collectives()) {
      const auto [at, fresh] = first_seen.try_emplace(own.number, rank, own);
      const auto& [other_rank, other] = at->second;
      if (fresh || kind_of(other) == kind_of(own)) continue;
      return fmt::format("the ranks have not called the same: rank {} {}, rank {} {}",
                         other_rank,
                         to_text(other),
                         rank,
                         to_text(own));
    }
  }
  return "";
}

}  // namespace gantrain
