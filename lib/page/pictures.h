// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gantrain {

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

}  // namespace gantrain
