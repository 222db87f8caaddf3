// SPDX-License-Identifier: Apache-2.0
#include "support/tiny.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "support/catch.h"
#include "support/paths.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

Words words_of(const std::string& text) {
  std::istringstream stream(text);
  Words result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

Words tiny(const std::string& more) {
  return words_of(
      "--preset dcgan-tiny --device cpu --threads 1 --resolution 16 --kimg 0.5 --metrics none "
      "--batch 16 --save-raw " +  // so that comparisons of models see every network
      more);
}

Outcome run_in(const TemporaryFolder& folder, const std::string& arguments) {
  return gantrain(words_of(arguments), {.folder = folder.path()});
}

Outcome succeed(const TemporaryFolder& folder, const std::string& arguments) {
  Outcome outcome = run_in(folder, arguments);
  CAPTURE(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return outcome;
}

fs::path train(const TemporaryFolder& folder, const std::string& name, const std::string& more) {
  const Outcome outcome =
      gantrain(tiny("--run-dir " + name + " " + more), {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return folder / name;
}

namespace {

// Waits until no other process has this file locked, and has it until it is destroyed.
class FileLock {
 public:
  explicit FileLock(const fs::path& path)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    REQUIRE(::flock(descriptor_, LOCK_EX) == 0);
  }
  ~FileLock() { ::close(descriptor_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

// The program and its libraries as they stand: names, sizes and times of modification.
std::string program_as_built() {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(build_folder())) {
    const std::string name = entry.path().filename().string();
    if (name != "gantrain" && !(starts_with(name, "libgantrain_") && ends_with(name, ".so")))
      continue;
    files.push_back(fmt::format(
        "{} {} {}", name, entry.file_size(), entry.last_write_time().time_since_epoch().count()));
  }
  std::sort(files.begin(), files.end());
  return sha256(fmt::format("{}", fmt::join(files, "\n"))).substr(0, 16);
}

// Where the runs of this program are kept. Those of another are removed when the first is made.
fs::path open_store() {
  const fs::path all = fs::path(build_folder()) / "test_runs";
  const fs::path own = all / program_as_built();
  if (fs::exists(own)) return own;
  fs::create_directories(all);
  const FileLock lock(all / ".lock");
  for (const fs::directory_entry& entry : fs::directory_iterator(all)) {
    if (entry.is_directory() && entry.path() != own) fs::remove_all(entry.path());
  }
  fs::create_directories(own);
  return own;
}

// Writes the run into the store unless it is there. It appears whole, by a rename.
fs::path stored(const std::string& more) {
  static const fs::path store = open_store();
  const fs::path run = store / sha256(more).substr(0, 16);
  if (fs::exists(run)) return run;
  const FileLock lock(run.string() + ".lock");
  if (fs::exists(run)) return run;
  const fs::path making = run.string() + ".making";
  fs::remove_all(making);  // of a test that was killed
  fs::create_directories(making);
  const Outcome outcome = gantrain(tiny("--run-dir run " + more), {.folder = making});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  fs::rename(making / "run", run);
  fs::remove_all(making);
  return run;
}

}  // namespace

fs::path trained(const TemporaryFolder& folder, const std::string& name, const std::string& more) {
  fs::create_directories((folder / name).parent_path());
  fs::copy(stored(more), folder / name, fs::copy_options::recursive);
  return folder / name;
}

std::vector<fs::path> files_like(const fs::path& run, const std::string& prefix) {
  std::vector<fs::path> result;
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    if (starts_with(entry.path().filename().string(), prefix)) result.push_back(entry.path());
  }
  // model-000000.safetensors comes before model-000000.272.safetensors.
  std::ranges::sort(result, {}, [](const fs::path& file) { return file.stem().string(); });
  return result;
}

fs::path last_model(const fs::path& run) { return files_like(run, "model-").back(); }

std::string check_same_on_two_ranks(const std::string& flags, const std::string& more) {
  const TemporaryFolder folder;
  std::string one = model_sha(train(folder, "one", flags + "--accumulate 2"));
  std::vector<std::string> ways = {"--ddp-mode wrapper", "--ddp-mode dynamic", "--ddp-mode flat"};
  if (!more.empty()) ways.push_back(more);
  for (size_t i = 0; i < ways.size(); ++i) {
    CAPTURE(ways[i]);
    const std::string two =
        model_sha(train(folder, fmt::format("two{}", i), flags + "--nproc 2 " + ways[i]));
    CHECK(two == one);
  }
  return one;
}

double mean_of(const nlohmann::ordered_json& line, const std::string& name) {
  return line.at(name).at("mean").get<double>();
}

std::string model_sha(const fs::path& run) {
  const std::vector<fs::path> models = files_like(run, "model-");
  REQUIRE(models.size() >= 2);  // the first is the one before training
  return sha256(read_file(models.back()));
}

bool has_model(const fs::path& run) {
  return std::ranges::any_of(files_like(run, "model-"), [](const fs::path& file) {
    return file.extension() == ".safetensors";  // and no temporary one
  });
}

nlohmann::ordered_json pids_of(const fs::path& run) {
  return nlohmann::ordered_json::parse(read_file(run / "errors/pids.json"));
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

std::string next_of(const Outcome& outcome) {
  const size_t at = outcome.err.rfind("next    gantrain ");
  REQUIRE(at != std::string::npos);
  return trim(outcome.err.substr(at + std::string("next    gantrain ").size()));
}

void check_refusals(const TemporaryFolder& folder,
                    const std::vector<std::tuple<std::string, int, std::string>>& table) {
  for (const auto& [arguments, code, named] : table) {
    CAPTURE(arguments);
    const Outcome outcome = run_in(folder, arguments);
    INFO(outcome.err);
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.out.empty());
    CHECK(holds(outcome.err, named));
  }
}

}  // namespace gantrain
