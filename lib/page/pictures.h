// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "page/run_record.h"

namespace gantrain {

// Cells of a sample grid.
struct SampleGridShape {
  int64_t rows = 0;
  int64_t columns = 0;
};

// Returns the label of a cell, counted row after row, of a grid that is sorted by class: where
// there are at most as many classes as rows, each row holds one class; where there are more, the
// cells go through the classes in their order. `classes` is at least 1.
int64_t class_of_cell(int64_t cell, const SampleGridShape& grid, int64_t classes);

// Returns what stands beside each row of such a grid: the class's name, or "first – last" of a row
// that holds several. `names` are by label; nothing without classes.
std::vector<std::string> row_names(const SampleGridShape& grid,
                                   const std::vector<std::string>& names);

// How large an embedded picture may be.
struct PictureLimits {
  int64_t side = 1600;     // pixels
  size_t bytes = 450'000;  // of the file that is embedded, before base64
};

// Pictures as data: URLs. What was encoded for one page is kept for the next one, as long as the
// file stays as it is.
class EmbeddedPictures {
 public:
  // A page is begun: pictures that the last one did not use are forgotten.
  void begin_page();

  // Returns the URL of the picture in a file: the file itself where it is a PNG within the limits,
  // else a WebP shrunk until it is. Nothing if the file is missing or broken.
  std::optional<std::string> url_of(const std::filesystem::path& file, const PictureLimits& limits);

 private:
  std::map<std::string, std::optional<std::string>> used_, before_;  // by file, time and limits
};

// A sample grid of generated pictures, samples/fakes*.png.
struct SampleFile {
  double kimg = 0;
  std::filesystem::path path;
};

// Returns a run's sample grids in the order of training; fakes_init.png is at kimg 0.
std::vector<SampleFile> sample_files(const std::filesystem::path& run_folder);

// Returns at most `most` of them, evenly spaced, with the first and the last one. The choice
// changes little when a file is added, so that most of the pictures are already encoded.
std::vector<SampleFile> evenly_chosen(const std::vector<SampleFile>& files, size_t most);

// Returns the section of pictures as HTML: the time-lapse of the sample grids with its slider,
// which shows the latest one first, or the latest one alone, beside real pictures. "" where there
// are none.
std::string picture_section(const RunRecord& run, EmbeddedPictures& store);

// Returns a figure of one grid with the names of its rows, or "" if there is no picture. The
// caption is HTML.
std::string grid_figure(const RunRecord& run,
                        const std::string& name,
                        const std::string& caption_html,
                        const std::optional<std::string>& url);

}  // namespace gantrain
