// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "page/pictures.h"
#include "page/run_record.h"
#include "page/verdict.h"

namespace gantrain {

// Returns the verdicts on a run, with its own limits of collapse.
std::vector<Verdict> judge(const RunRecord& run);

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

}  // namespace gantrain
