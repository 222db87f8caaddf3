// SPDX-License-Identifier: Apache-2.0
#include "support/tiny.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "util/file.h"
#include "util/hash.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

Words words(const std::string& text) {
  std::istringstream stream(text);
  Words result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

Words tiny(const std::string& more) {
  return words(
      "--preset dcgan-tiny --device cpu --threads 1 --resolution 16 --kimg 0.5 --metrics none "
      "--batch 16 --save-raw " +  // so that comparisons of models see every network
      more);
}

fs::path train(const TemporaryFolder& folder, const std::string& name, const std::string& more) {
  const Outcome outcome =
      gantrain(tiny("--run-dir " + name + " " + more), {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return folder / name;
}

std::vector<fs::path> files_like(const fs::path& run, const std::string& prefix) {
  std::vector<fs::path> result;
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    if (starts_with(entry.path().filename().string(), prefix)) result.push_back(entry.path());
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::string model_sha(const fs::path& run) {
  const std::vector<fs::path> models = files_like(run, "model-");
  REQUIRE(models.size() >= 2);  // the first is the one before training
  return sha256(read_file(models.back()));
}

nlohmann::json pids_of(const fs::path& run) {
  return nlohmann::json::parse(read_file(run / "errors/pids.json"));
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string text_in(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) ? read_file(path) : "";
}

bool is_one_error_line(const std::string& text) {
  return starts_with(text, "error") && std::count(text.begin(), text.end(), '\n') == 1 &&
         text.back() == '\n';
}

}  // namespace gantrain
