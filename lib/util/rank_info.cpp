// SPDX-License-Identifier: Apache-2.0
#include "util/rank_info.h"

#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr size_t kShown = 8;

// Of more than kShown the first ones and "...".
std::string shown(std::vector<std::string> parts) {
  if (parts.size() > kShown) {
    parts.resize(kShown);
    parts.emplace_back("...");
  }
  return join(parts, ", ");
}

}  // namespace

std::string nodes_text(const std::vector<NodeRanks>& nodes) {
  std::vector<std::string> parts;
  for (const auto& [node, first, last] : nodes) {
    parts.push_back(first == last ? fmt::format("node {} (rank {})", node, first)
                                  : fmt::format("node {} (ranks {} to {})", node, first, last));
  }
  return shown(std::move(parts));
}

std::string ranks_text(const std::vector<int64_t>& ranks) {
  std::vector<std::string> parts;
  for (const int64_t rank : ranks) parts.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + shown(std::move(parts));
}

std::string sizes_text(int64_t ranks, int64_t nodes) {
  return fmt::format("{} on {}", counted(ranks, "rank"), counted(nodes, "node"));
}

std::string disagreement_text(const std::string& sizes,
                              const std::string& place,
                              const std::string& other_sizes,
                              const std::string& other_place) {
  return fmt::format(
      "the nodes disagree on the size of the run: {} on {}, {} on {}; give all nodes the same "
      "--nnodes and --nproc",
      sizes,
      place,
      other_sizes,
      other_place);
}

std::string started_twice_text(const std::string& who,
                               const std::string& place,
                               const std::string& other_place) {
  return fmt::format(
      "{} was started twice: on {} and on {}; each node needs a --node-rank of its own",
      who,
      place,
      other_place);
}

}  // namespace gantrain
