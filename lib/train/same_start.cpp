// SPDX-License-Identifier: Apache-2.0
#include "train/same_start.h"

#include "data/manifest.h"
#include "data/scan.h"
#include "distributed/agreement.h"
#include "distributed/shared_text.h"
#include "train/classes.h"
#include "util/host_name.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Keys whose values may differ between nodes.
bool may_differ_between_nodes(const std::string& key) {
  for (const char* prefix : {"launch.", "run."}) {
    if (starts_with(key, prefix)) return true;
  }
  for (const char* one :
       {"data.path", "data.labels", "data.workers", "data.cache_mb", "data.verify"}) {
    if (key == one) return true;
  }
  return false;
}

constexpr const char* kContent = "content of the data";
constexpr int64_t kPicturesRead = 2000;

// Names and labels of all pictures, and the content of some that are evenly spread over them: so
// much takes a bounded time on any disk.
std::string content_digest(const Dataset& dataset) {
  const Manifest all = list_pictures(dataset, "");
  Manifest some;
  for (const int64_t i : evenly_spaced(static_cast<int64_t>(all.rows.size()), kPicturesRead))
    some.rows.push_back(all.rows[static_cast<size_t>(i)]);
  mark_pictures(dataset, {.threads = threads_for_marks()}, some);
  return digest_of(all) + digest_of(some);
}

// What must be equal on all ranks: configuration keys, and facts of the data. One rank of each node
// reads the data's content.
Json what_matters(const Config& config, const Dataset& dataset, const RankInfo& ranks) {
  Json all = Json::object();
  all["gantrain's version"] = kVersion;
  for (const Key& key : config.schema()) {
    if (!may_differ_between_nodes(key.path)) all[key.path] = config.get(key.path);
  }
  Json classes = Json::array();
  for (const ClassRow& row : class_table_of(dataset))
    classes.push_back(fmt::format("{} ({})", row.name, row.pictures));
  all["pictures of the data"] = dataset.size();
  all["channels of the data"] = dataset.channels();
  all["classes of the data"] = classes;
  if (ranks.nodes > 1 && ranks.local_rank == 0) all[kContent] = content_digest(dataset);
  return all;
}

std::string shown(const Json& all, const std::string& key) {
  constexpr size_t kMostShown = 120;
  const auto found = all.find(key);
  if (found == all.end()) return "absent";
  const std::string text = text_of(*found);
  return text.size() <= kMostShown ? text : text.substr(0, kMostShown) + "...";
}

// The first difference, as a sentence; "" where there is none.
std::string difference(const Json& mine, const Json& first, const RankInfo& ranks) {
  for (const auto& [key, value] : mine.items()) {
    const auto there = first.find(key);
    if (there != first.end() && *there == value) continue;
    return fmt::format(
        "the ranks were started differently: {} is {} on node {} ({}, rank {}), and {} on node 0; "
        "give every node the same command, data and version",
        key,
        shown(mine, key),
        ranks.node_rank,
        host_name(),
        ranks.rank,
        shown(first, key));
  }
  return "";
}

}  // namespace

void check_same_start(const TrainSetup& setup, const Dataset& dataset, Group& group) {
  if (group.world() == 1) return;
  // Both are compared as text carries them: a value that is not UTF-8 is replaced in both.
  const std::string text = what_matters(setup.config, dataset, group.ranks())
                               .dump(-1, ' ', false, Json::error_handler_t::replace);
  const Json mine = Json::parse(text);
  const Json first = Json::parse(shared_text(text, group, setup.device));
  throw_first_objection(difference(mine, first, group.ranks()), group, setup.device);
}

}  // namespace gantrain
