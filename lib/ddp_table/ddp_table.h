// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/value.h"
#include "distributed/group.h"
#include "ddp_table/table_modes.h"

namespace gantrain {

// What a GAN does to each way of using DistributedDataParallel: one cell for a way, find-unused on
// or off, and a GAN whose graph is static or grows. The ways that fail are there to be seen
// failing.
struct DdpCell {
  TableSettings settings;
  bool progressive = false;
};

// A mean over the iterations that were completed.
struct CellPhase {
  double bytes = 0;
  double collectives = 0;
  int64_t buckets = 0;
};

struct CellResult {
  DdpCell cell;
  std::string error;            // first sentence of the first fatal one; empty: it ran
  int64_t failed_at = -1;       // iteration, from 0
  bool not_reduced = false;     // ranks differed, before the error if there was one
  double from_one_process = 0;  // largest distance of a weight from one process's
  std::map<std::string, CellPhase> phases;

  // "OK", "error at iteration 2: ...", "ranks differ".
  std::string text() const;
};

// Runs `body` as each of `world` ranks in processes of their own and returns what they returned.
// Throws if one died.
using RunRanks = std::function<std::vector<std::string>(
    int64_t world, const std::function<std::string(const Rendezvous&)>& body)>;

// All cells in the table's order, each with two gloo ranks. This process calls no LibTorch, so that
// it can fork.
std::vector<CellResult> measure_ddp_table(const RunRanks& run);
// One cell, compared with one process of the same GAN.
CellResult measure_cell(const DdpCell& cell, const RunRanks& run);

// What the cell is known to do with LibTorch 2.11: the start of CellResult::text().
std::string expected_text(const DdpCell& cell);

// One line a cell, "!" before those that do not what they are expected to do; the same as JSON.
std::string ddp_table_text(const std::vector<CellResult>& results);
Json ddp_table_json(const std::vector<CellResult>& results);

}  // namespace gantrain
