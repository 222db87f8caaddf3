// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "page/pictures.h"
#include "page/run_record.h"

namespace gantrain {

// What became of a run. kLearning, kLevelled and kNotImproving say how a measured distance from the
// real pictures has moved; kNoFailure: no rule of failure holds, and no measurement tells more;
// kYoung: it is too early to tell; kStuck: a network does not learn.
enum class Judgement {
  kLearning,
  kLevelled,
  kNotImproving,
  kNoFailure,
  kYoung,
  kStuck,
  kCollapsed,
  kDiverged,
  kKilled,
  kFailed,
  kStopped
};

struct Verdict {
  Judgement judgement = Judgement::kYoung;
  std::string word;    // "collapsed"
  std::string reason;  // the numbers: "MS-SSIM 0.97 of the last fakes is above 0.9"
  std::string rule;    // the rule's name: "alike by MS-SSIM"
};

// Judges a run by named rules, with its own limits of collapse; collapse is not judged where its
// settings have none. The first verdict is the one to begin with: how the run ended, if
// that was no success, or what its training is like; a second one says the other, where both are
// known.
std::vector<Verdict> judge(const RunRecord& run);

// A rule that judge() names, and when it holds, with its numbers.
struct RuleDefinition {
  std::string name, definition;
};
const std::vector<RuleDefinition>& rule_definitions();
// Returns when that rule holds; "" for rules whose names say it ("exit code 6").
std::string definition_of(const std::string& rule);

// Returns the exit code that STATUS tells: 6 of "failed with exit code 6: ...".
std::optional<int64_t> exit_code_of(const std::string& status);

// The speed of the last ticks; nothing where no tick has been reported.
std::optional<double> images_per_second(const RunRecord& run);
// How long a run at work will take at that speed; nothing where that is not known.
std::optional<double> seconds_to_go(const RunRecord& run);

// Returns one self-contained page about a run, below 5 MB: verdict and facts, how it ended,
// pictures and their time-lapse, curves each explained in a sentence, incidents, settings with
// their origins, the environment. Missing files and broken lines are left out.
std::string render_run_page(const std::filesystem::path& run_folder, EmbeddedPictures& store);
std::string render_run_page(const std::filesystem::path& run_folder);

// The inside of that page's body, without its script.
std::string run_page_body(const RunRecord& run, EmbeddedPictures& store);

// Writes render_run_page() to RUN_FOLDER/report.html, atomically. Throws UserError(kDisk).
void write_run_page(const std::filesystem::path& run_folder);

// Writes the page of a run at work again and again. What is wrong with the disk is warned of once;
// it never ends the run.
class PageWriter {
 public:
  // Writes the page now.
  void write(const std::filesystem::path& run_folder);
  // Writes the page at the first call, and later where the last page of this function is 10 seconds
  // old and also 50 times as old as it took to write it. `now` is in monotonic seconds.
  void write_if_due(const std::filesystem::path& run_folder, double now);

  // Whether write_if_due() would write.
  bool is_due(double now) const { return now >= next_; }

 private:
  EmbeddedPictures pictures_;
  double next_ = 0;  // monotonic seconds
  bool warned_ = false;
};

// Returns one self-contained page that compares runs: verdicts and facts, the keys of the
// configuration that differ, the latest grids side by side, curves over each other. Throws
// UserError(kInput) that names the first folder that is no run folder, or one without a row of
// stats.jsonl.
std::string render_comparison(const std::vector<std::filesystem::path>& run_folders);

}  // namespace gantrain
