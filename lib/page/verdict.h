// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "page/charts.h"
#include "page/run_record.h"

namespace gantrain {

// What became of a run. kYoung: it is too early to tell.
enum class Judgement { kGood, kYoung, kCollapsed, kDiverged, kKilled, kFailed, kStopped };

struct Verdict {
  Judgement judgement = Judgement::kYoung;
  std::string word;    // "collapsed"
  std::string reason;  // the numbers: "MS-SSIM 0.97 of the last fakes is above 0.9"
  std::string rule;    // the rule's name: "alike by MS-SSIM"
};

// The run's own limits of the collapse alarm: metrics.collapse_below, _times and _after.
struct CollapseLimits {
  double below = 0;  // as a share of how distinct the data's pictures are; 0: nothing is judged
  int64_t times = 1;
  double after_kimg = 0;
};

struct VerdictInput {
  std::string status;   // the line of STATUS
  bool at_work = true;  // false: nobody trains there, whatever STATUS says
  std::map<std::string, Curve> stats, metrics;
  std::optional<CollapseLimits> limits;  // nothing: collapse is not judged
};

// Judges a run by named rules. The first verdict is the one to begin with: how the run ended, if
// that was no success, or what its training is like; a second one says the other, where both are
// known.
std::vector<Verdict> judge(const VerdictInput& run);

// Returns the exit code that STATUS tells: 6 of "failed with exit code 6: ...".
std::optional<int64_t> exit_code_of(const std::string& status);

// Where the curves of a chart are known to be in healthy training.
struct HealthyBand {
  Band band;
  std::string words;  // a sentence with the source
};

// Returns what is known for this run's chart: by its loss, its targets and its limits.
std::vector<HealthyBand> healthy_bands(const RunRecord& run, const Chart& chart);

}  // namespace gantrain
