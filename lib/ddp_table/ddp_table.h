// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/value.h"
#include "ddp_table/table_modes.h"
#include "util/rank_info.h"

namespace gantrain {

// One cell of a table that shows what happens when the two networks of a GAN are trained with a
// given way of synchronising gradients. The cells differ in the way, in whether unused parameters
// are searched for, and in whether the GAN's graph stays the same or grows. Some ways fail; they
// are in the table to show how.
struct DdpCell {
  TableSettings settings;
  bool progressive = false;
};

// What one phase costs, as a mean over the iterations.
struct CellPhase {
  double bytes = 0;  // given to collectives, by one rank
  double collectives = 0;
  int64_t buckets = 0;  // in the last iteration
};

struct CellResult {
  DdpCell cell;
  std::string error;            // first sentence of the error that ended it; empty: there was none
  int64_t failed_at = -1;       // the iteration of the error, from 0; -1: there was none
  bool not_reduced = false;     // the ranks' weights differed, perhaps before an error
  double from_one_process = 0;  // largest difference between a weight and that of one process
  std::map<std::string, CellPhase> phases;  // "D" and "G"

  // Says what happened: "OK", "error at iteration 2: ...", "ranks differ".
  std::string text() const;
};

// Runs `body` in `world` processes, one for each rank, and returns what they returned, by rank.
// Throws if one of them died.
using RunRanks = std::function<std::vector<std::string>(
    int64_t world, const std::function<std::string(const Rendezvous&)>& body)>;

// Measures all cells, in the order of the table, each with two gloo ranks. The calling process must
// not have called LibTorch, because it forks.
std::vector<CellResult> measure_ddp_table(const RunRanks& run);
// Measures one cell and compares it with one process that trains the same GAN.
CellResult measure_cell(const DdpCell& cell, const RunRanks& run);

// What is known to happen in the cell with LibTorch 2.11, as the beginning of CellResult::text().
std::string expected_text(const DdpCell& cell);

// The table as text, with one line for each cell, and the same as JSON. A "!" stands before cells
// in which something else happened than expected_text() says.
std::string ddp_table_text(const std::vector<CellResult>& results);
Json ddp_table_json(const std::vector<CellResult>& results);

}  // namespace gantrain
