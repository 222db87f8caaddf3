// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/step_setup.h"

namespace gantrain {

// A configuration whose training steps are tried out.
struct StepCase {
  std::string name;
  std::map<std::string, Json> changes;
  std::vector<int64_t> class_counts = {};
  int64_t stage = 0;  // of a recipe that grows
  // Labels of all pictures where these are vectors, float32 [pictures, L]; undefined: classes.
  at::Tensor label_rows = {};
};

// Six labels of three numbers: two classes of which a picture may have both, and a value.
at::Tensor some_label_rows();

// Two ranks train in that dist.ddp_mode, in each of these settings of precision.*, each case with
// reads that are free and under AssumeReadsWait. Fails, naming the case, where an iteration waits
// for the device. To be called before LibTorch is.
void check_nothing_waits(const RecipeRow& row,
                         const std::vector<StepCase>& cases,
                         const std::string& mode,
                         const std::vector<std::map<std::string, Json>>& precisions);

// float32, bfloat16 and float16 by autocast.
std::vector<std::map<std::string, Json>> all_amp();

// Trains three iterations with reads that are free and under AssumeReadsWait. Fails where a tensor
// of the state differs by more than `tolerance` of its largest value, or of 1 where that is
// smaller.
void check_waiting_changes_nothing(const RecipeRow& row, const StepCase& one, double tolerance);

// Trains `iterations` under AssumeReadsWait, once as phases are and once with phases that are
// recorded and replayed (TapeGraphs, train.graphs=on), in each of these settings of precision.*; on
// several ranks in the first and the last.
// Fails where a bit of the state or of what an iteration reports differs, or where nothing was
// replayed. On 2 ranks it is to be called before LibTorch is.
void check_graphs_change_nothing(const RecipeRow& row,
                                 const StepCase& one,
                                 const std::vector<std::map<std::string, Json>>& precisions,
                                 int64_t ranks,
                                 int64_t iterations);

}  // namespace gantrain
