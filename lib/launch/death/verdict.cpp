// SPDX-License-Identifier: Apache-2.0
#include "launch/death/verdict.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "util/error.h"
#include "util/time.h"

namespace gantrain {

namespace {

using Deaths = std::vector<const Death*>;

constexpr double kLongestPause = 60;  // seconds
constexpr int kRankDied = static_cast<int>(Exit::kRankDied);

int64_t wait_ns(int64_t nodes) { return static_cast<int64_t>(cause_wait(nodes) * 1e9); }

// All are elements of one vector, whose order counts where two have the same time.
Deaths by_time(Deaths deaths) {
  std::sort(deaths.begin(), deaths.end(), [](const Death* a, const Death* b) {
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
  return std::any_of(of_node.begin(), of_node.end(), [](const Death* death) {
    return death->kind == Death::Kind::kHang;
  });
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
  const auto cause = std::find_if(words.begin(), words.end(), [](const Death* word) {
    return blame_of(*word) == Blame::kCause;
  });
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
    : most_(options.max_restarts), next_pause_(options.patience.first_restart) {}

Restarts::Decision Restarts::after(const AttemptOutcome& end) {
  const bool repeated = before_ && is_same(*before_, end);
  before_ = end;
  if (!end.restartable || number_ >= most_) return {};
  if (repeated) {
    return {.note = fmt::format("failed twice at iteration {} with the same cause: not restarted "
                                "again ({} of {} restarts used)",
                                end.iteration,
                                number_,
                                most_)};
  }
  Decision decision{.again = true, .pause = next_pause_};
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
  decision.note = fmt::format("starting the ranks again ({} of {} restarts){}",
                              ++number_,
                              most_,
                              decision.pause > 0 ? " in " + short_duration(decision.pause) : "");
  return decision;
}

}  // namespace gantrain
