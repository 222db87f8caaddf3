// SPDX-License-Identifier: Apache-2.0
#include "launch/death/death.h"

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <tuple>

#include "launch/local/processes.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr size_t kMessageLines = 3;

// At most three lines of the message, those that name the cause first, the later ones indented.
std::string shortened(const std::string& message) {
  std::vector<std::string> lines = telling_lines(message);
  if (lines.size() > kMessageLines) lines.resize(kMessageLines);
  return join(lines, "\n        ");
}

std::string progress(const Death& f) {
  if (f.program) return "";
  const std::string phase = f.phase.empty() ? "" : fmt::format(" in phase \"{}\"", f.phase);
  if (f.iteration == 0 && f.images_seen == 0) return phase + " before the first iteration";
  return fmt::format("{} at {:.1f} kimg", phase, static_cast<double>(f.images_seen) / 1e3);
}

bool is_one_of(int code, std::initializer_list<Exit> exits) {
  return std::ranges::any_of(exits, [&](Exit exit) { return code == code_of(exit); });
}

std::string kill_text(const Death& f) {
  const double gib = static_cast<double>(f.peak_kib) / (1024.0 * 1024.0);
  const std::string peak =
      f.peak_kib > 0 ? fmt::format("; the rank's peak was {:.1f} GiB", gib) : "";
  if (f.host_was_short) {
    return fmt::format(
        "\n        the kernel's out-of-memory killer was at work meanwhile: host memory, "
        "not the GPU's{}; give {}fewer ranks here (--nproc)",
        peak,
        f.program ? "" : "a smaller --micro-batch or --resolution, or ");
  }
  return fmt::format(
      "\n        gantrain did not send it: a person, the batch system or the "
      "out-of-memory killer of an outer group did{}",
      peak);
}

int64_t counter_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  for (std::string name; file >> name >> value;) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

}  // namespace

bool is_behind(const RankProgress& a, const RankProgress& b) {
  if (a.stopped != b.stopped) return a.stopped;
  return std::tie(a.collectives, a.iteration) < std::tie(b.collectives, b.iteration);
}

size_t furthest_behind(const std::vector<RankProgress>& ranks) {
  const auto worst = std::ranges::min_element(ranks, [](const auto& a, const auto& b) {
    if (is_behind(a, b) || is_behind(b, a)) return is_behind(a, b);
    return a.heartbeat_ns < b.heartbeat_ns;
  });
  return static_cast<size_t>(worst - ranks.begin());
}

Death death_in(const RankSlot& slot, int64_t rank) {
  Death death;
  death.host = host_name();
  death.rank = rank;
  death.pid = static_cast<pid_t>(slot.pid.load());
  death.phase = slot.phase();
  death.collective = standing_text(slot.trace, monotonic_ns());
  death.iteration = slot.iteration();
  death.images_seen = slot.images_seen();
  if (const auto crash = slot.crash()) death.stack = crash->stack;
  if (const auto reported = slot.failure()) {
    death.ns = reported->ns;
    death.code = static_cast<int>(reported->code);
    death.message = reported->message;
  }
  return death;
}

bool is_victim(const Death& death) {
  const bool watchdog = death.signal == SIGABRT && tells_of_nccl(death.message);
  if (death.signal != 0 && !watchdog) return false;
  // What is wrong with the user's input, a disk or the training is no peer's doing, whatever words
  // the message has.
  const auto own = {Exit::kUsage, Exit::kInput, Exit::kDiverged, Exit::kOutOfMemory, Exit::kDisk};
  if (!death.program && is_one_of(death.code, own)) return false;
  return tells_of_lost_peer(death.message) || tells_of_vain_wait(death.message);
}

bool waited_in_vain(const Death& death) {
  return is_victim(death) && tells_of_vain_wait(death.message);
}

int exit_code(const Death& death) {
  if (death.program) return death.signal != 0 ? 128 + death.signal : death.code;
  if (death.host_was_short) return code_of(Exit::kOutOfMemory);
  return is_restartable(death) ? code_of(Exit::kRankDied) : death.code;
}

bool is_restartable(const Death& death) {
  return death.program || death.code < code_of(Exit::kUsage) || death.code > code_of(Exit::kDisk);
}

std::string cause_of(const Death& d) {
  if (d.program || (d.signal == SIGKILL && !d.host_was_short && d.iteration == 0)) return "";
  const std::string how =
      d.signal != 0 ? signal_text(d.signal) : fmt::format("exit code {}", d.code);
  std::string message = cause_line(d.message);
  std::erase_if(message, [](char c) { return c >= '0' && c <= '9'; });
  return how + ": " + message;
}

std::string death_text(const Death& d, int64_t nodes) {
  const bool fixable =
      is_one_of(d.code, {Exit::kUsage, Exit::kInput, Exit::kEnvironment, Exit::kDisk});
  if (fixable && !d.program && d.signal == 0 && d.iteration == 0 && !d.message.empty())
    return shortened(d.message);
  const std::string who = fmt::format("rank {} ({}, pid {})", d.rank, d.host, d.pid);
  std::string text;
  if (d.signal != 0) {
    text = fmt::format("{} died of {}{}", who, signal_text(d.signal), progress(d));
  } else if (d.message.empty() || d.program) {
    text = fmt::format("{} ended with exit code {}{}", who, d.code, progress(d));
  } else {
    text = fmt::format("{} failed{}", who, progress(d));
  }
  if (!d.message.empty()) text += ": " + shortened(d.message);
  if (d.signal == SIGKILL && !d.sent_by_gantrain) text += kill_text(d);
  if (nodes > 1 && is_victim(d)) {
    text += "\n        a rank of another node may have died first: see that node's last lines";
  }
  return text;
}

std::string behind_text(const Death& behind) {
  if (behind.program)
    return fmt::format("rank {} ({}, pid {}) is stopped", behind.rank, behind.host, behind.pid);
  return fmt::format("rank {} ({}, pid {}) is behind, in phase \"{}\" at iteration {}{}",
                     behind.rank,
                     behind.host,
                     behind.pid,
                     behind.phase,
                     behind.iteration,
                     behind.collective.empty() ? "" : ", " + behind.collective);
}

std::string hang_text(double hang_timeout_seconds) {
  return fmt::format("no progress for {} (--hang-timeout)", short_duration(hang_timeout_seconds));
}

std::string waiting_text(const Death& waiting) {
  return fmt::format("; rank {} waited for it in vain{}: {}",
                     waiting.rank,
                     waiting.collective.empty() ? "" : ", " + waiting.collective,
                     shortened(waiting.message));
}

std::string progress_table(const RankStatusBoard& board, int64_t first_rank) {
  std::string text =
      "  rank  phase                            iteration      kimg  silent for  last collective";
  const int64_t now = monotonic_ns();
  for (int64_t i = 0; i < board.ranks(); ++i) {
    const RankSlot& slot = board.slot(i);
    const int64_t beat = slot.heartbeat_ns() == 0 ? board.start_ns : slot.heartbeat_ns();
    fmt::format_to(std::back_inserter(text),
                   "\n  {:>4}  {:<31}  {:>9}  {:>8.1f}  {:>8.0f} s  {}",
                   first_rank + i,
                   slot.phase(),
                   slot.iteration(),
                   static_cast<double>(slot.images_seen()) / 1e3,
                   static_cast<double>(now - beat) / 1e9,
                   standing_text(slot.trace, now));
  }
  return text;
}

std::string mismatch_text(const RankStatusBoard& board, int64_t first_rank) {
  std::vector<const RankTrace*> traces;
  for (int64_t i = 0; i < board.ranks(); ++i) traces.push_back(&board.slot(i).trace);
  return mismatch_text(traces, first_rank);
}

int64_t out_of_memory_kills() {
  int64_t kills = counter_in("/proc/vmstat");
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!starts_with(line, "0::")) continue;
    kills += counter_in("/sys/fs/cgroup" + line.substr(3) + "/memory.events");
  }
  return kills;
}

namespace {

using Deaths = std::vector<const Death*>;

constexpr double kLongestPause = 60;  // seconds
constexpr int kRankDied = code_of(Exit::kRankDied);

int64_t wait_ns(int64_t nodes) { return static_cast<int64_t>(cause_wait(nodes) * 1e9); }

// All are elements of one vector, whose order counts where two have the same time.
Deaths by_time(Deaths deaths) {
  std::ranges::sort(deaths, [](const Death* a, const Death* b) {
    return std::tie(a->ns, a) < std::tie(b->ns, b);
  });
  return deaths;
}

// The earliest; where that is no cause of its own, the first that is, if it came soon enough.
const Death& first_of(const Deaths& deaths, int64_t nodes) {
  const Death& earliest = *deaths.front();
  for (const Death* death : deaths) {
    if (death->ns > earliest.ns + wait_ns(nodes)) break;
    if (blame_of(*death) == Blame::kCause) return *death;
  }
  return earliest;
}

bool hangs(const Deaths& of_node) {
  return std::ranges::any_of(of_node,
                             [](const Death* death) { return death->kind == Death::Kind::kHang; });
}

std::map<int64_t, Deaths> of_nodes(const std::vector<Death>& deaths) {
  std::map<int64_t, Deaths> nodes;
  for (const Death& death : deaths) nodes[death.node].push_back(&death);
  return nodes;
}

// The word of each node that has one, the earliest first.
Deaths words_of(const std::vector<Death>& deaths, int64_t nodes) {
  Deaths words;
  for (auto& [node, own] : of_nodes(deaths)) {
    const bool hang = hangs(own);
    std::erase_if(own, [&](const Death* death) {
      return blame_of(*death) == Blame::kNone || (hang && death->kind == Death::Kind::kRank);
    });
    if (!own.empty()) words.push_back(&first_of(by_time(own), nodes));
  }
  return by_time(words);
}

// The rank that has come least far, by the nodes that name one; null if none does.
const Death* last_of(const std::vector<Death>& deaths, int64_t nodes) {
  Deaths named;
  std::vector<RankProgress> progress;
  for (const auto& [node, own] : of_nodes(deaths)) {
    const auto kind = hangs(own) ? Death::Kind::kHang : Death::Kind::kAlive;
    for (const Death* death : own) {
      if (death->kind != kind) continue;
      named.push_back(death);
      progress.push_back(death->progress);
      // Nodes have clocks of their own: no sign of life is older than another node's.
      if (nodes > 1) progress.back().heartbeat_ns = 0;
    }
  }
  return named.empty() ? nullptr : named[furthest_behind(progress)];
}

std::string node_text(const Death& death) {
  return death.node < 0 ? "" : fmt::format("node {}: ", death.node);
}

// The end of a world whose ranks wait for one that is behind.
AttemptOutcome end_behind(const Death& behind, const std::string& error, const char* why) {
  return {.code = kRankDied,
          .error = error,
          .restartable = true,
          .resumable = true,
          .cause = fmt::format("{} in phase {}", why, behind.phase),
          .iteration = behind.iteration};
}

// The end of a world of which `word` tells, and which nobody else explains.
AttemptOutcome end_by(const Death& word, int64_t nodes) {
  if (word.kind == Death::Kind::kLauncher)  // nothing can start its ranks again
    return {.code = kRankDied, .error = word.message, .resumable = true};
  if (word.kind == Death::Kind::kLoader) {
    const bool died = word.code == kRankDied;
    return {.code = word.code,
            .error = node_text(word) + word.message,
            .restartable = died,
            .resumable = died};
  }
  if (word.kind == Death::Kind::kHang) {
    const std::string error = hang_text(word.hang_timeout) + ": " + behind_text(word);
    return end_behind(word, node_text(word) + error, "no progress");
  }
  const bool restartable = is_restartable(word);
  return {.code = exit_code(word),
          .error = node_text(word) + death_text(word, nodes),
          .restartable = restartable,
          .resumable = word.iteration > 0 || restartable,
          .cause = cause_of(word),
          .iteration = word.iteration};
}

// The end of a world in which the rank of `word` waited for another one that is certainly behind.
std::optional<AttemptOutcome> end_waiting(const Death& word, const Death& last) {
  const bool hang = word.kind == Death::Kind::kHang;
  if (!hang && !waited_in_vain(word)) return std::nullopt;
  // In a hang where nobody is certainly behind, the one that the node itself found is as good.
  if (!is_behind(last.progress, word.progress)) return std::nullopt;
  const std::string who = node_text(last) + behind_text(last);
  return hang ? end_behind(last, hang_text(word.hang_timeout) + ": " + who, "no progress")
              : end_behind(last, who + waiting_text(word), "waited in vain");
}

// A rank that is behind, as one that has failed.
Death as_failed(Death behind, const Death& word) {
  behind.code = kRankDied;
  if (behind.message.empty()) {
    behind.message = word.kind == Death::Kind::kHang ? hang_text(word.hang_timeout)
                                                     : "other ranks waited for it in vain";
  }
  return behind;
}

DeathVerdict verdict_of(AttemptOutcome end, const Death& first, const std::vector<Death>& deaths) {
  DeathVerdict verdict{.end = std::move(end), .ranks = {}};
  const bool of_rank = first.kind != Death::Kind::kLoader && first.kind != Death::Kind::kLauncher;
  if (of_rank) verdict.ranks.push_back(first);
  for (const Death& death : deaths) {
    const bool again = of_rank && death.rank == first.rank;
    if (death.kind == Death::Kind::kRank && !again) verdict.ranks.push_back(death);
  }
  return verdict;
}

bool is_same(const AttemptOutcome& a, const AttemptOutcome& b) {
  return !a.cause.empty() && a.cause == b.cause && a.iteration == b.iteration;
}

}  // namespace

Blame blame_of(const Death& death) {
  switch (death.kind) {
    case Death::Kind::kAlive:
      return Blame::kNone;
    case Death::Kind::kHang:
      return Blame::kHang;
    case Death::Kind::kRank:
      return is_victim(death) ? Blame::kVictim : Blame::kCause;
    default:
      return Blame::kCause;
  }
}

const Death* word_of(const std::vector<Death>& of_node, int64_t nodes) {
  const Deaths words = words_of(of_node, nodes);
  return words.empty() ? nullptr : words.front();
}

std::optional<DeathVerdict> decide(const std::vector<Death>& deaths, int64_t nodes) {
  const Deaths words = words_of(deaths, nodes);
  if (words.empty()) return std::nullopt;
  // A node has waited for its own causes; the causes of all nodes count, whenever they were heard
  // of.
  const auto cause = std::ranges::find_if(
      words, [](const Death* word) { return blame_of(*word) == Blame::kCause; });
  const Death& first = cause == words.end() ? *words.front() : **cause;
  const Death* last = last_of(deaths, nodes);
  if (last != nullptr && blame_of(first) != Blame::kCause) {
    for (const Death* word : words) {
      if (auto end = end_waiting(*word, *last))
        return verdict_of(std::move(*end), as_failed(*last, *word), deaths);
    }
  }
  const bool hang = first.kind == Death::Kind::kHang;
  return verdict_of(end_by(first, nodes), hang ? as_failed(first, first) : first, deaths);
}

std::optional<int64_t> decides_at(const std::vector<Death>& deaths, int64_t nodes) {
  std::optional<int64_t> first;
  bool known = false;
  for (const Death& death : deaths) {
    if (blame_of(death) == Blame::kNone) continue;
    first = std::min(first.value_or(death.ns), death.ns);
    known = known || blame_of(death) == Blame::kCause;
  }
  if (first && !known) *first += wait_ns(nodes);
  return first;
}

Restarts::Restarts(const LaunchOptions& options)
    : most_(options.max_restarts), first_pause_(options.patience.first_restart) {}

void Restarts::note_saved(const std::string& newest) {
  if (newest.empty() || newest == saved_) return;
  saved_ = newest;
  number_ = 0;
  next_pause_ = first_pause_;
}

Restarts::Decision Restarts::after(const AttemptOutcome& end) {
  const bool repeated = before_ && is_same(*before_, end);
  before_ = end;
  if (!end.restartable || number_ >= most_) return {};
  if (repeated) {
    return {.note = fmt::format("failed twice at iteration {} with the same cause: not restarted "
                                "again ({} used of {})",
                                end.iteration,
                                number_,
                                counted(most_, "restart"))};
  }
  Decision decision{.again = true, .pause = next_pause_};
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
  decision.note = fmt::format("starting the ranks again (restart {} of {}){}",
                              ++number_,
                              most_,
                              decision.pause > 0 ? " in " + short_duration(decision.pause) : "");
  return decision;
}

}  // namespace gantrain
