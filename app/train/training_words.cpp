// SPDX-License-Identifier: Apache-2.0
#include "train/training_words.h"

#include <algorithm>
#include <filesystem>

#include "command/flags.h"
#include "command/jobs.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Refuses flags that neither this verb nor `gantrain train` has.
void check_flag_names(const Options& options, const std::vector<std::string>& words) {
  std::vector<std::string> known = training_flag_names();
  for (const std::string& name : options.flag_names()) known.push_back(name);
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (!starts_with(name, "--") || contains(known, name)) continue;
    fail(Exit::kUsage, "unknown flag {}{}", name, did_you_mean(name, known));
  }
}

}  // namespace

std::optional<std::vector<std::string>> training_words(Options& options,
                                                       const std::vector<std::string>& arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  std::vector<std::string> words;
  if (!options.parse({arguments.begin(), dashes}, &words)) return std::nullopt;
  check_flag_names(options, translate_habits(words, training_flag_names()).arguments);
  if (dashes != arguments.end()) words.insert(words.end(), dashes + 1, arguments.end());
  words = translate_habits(words, training_flag_names()).arguments;
  if (!words.empty() && words.front() == "train") words.erase(words.begin());
  return words;
}

std::vector<std::string> without_flag(const std::vector<std::string>& words,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (!contains(names, words[i].substr(0, equals))) {
      kept.push_back(words[i]);
    } else if (equals == std::string::npos) {
      ++i;
    }
  }
  return kept;
}

void refuse_given(const Config& config,
                  std::initializer_list<const char*> keys,
                  const std::string& why) {
  for (const char* key : keys) {
    if (config.given(key)) fail(Exit::kUsage, "{}: {}", flag_of(key), why);
  }
}

int64_t ranks_of_node(const JobRequest& request,
                      const LaunchOptions& launch,
                      const std::string& flag,
                      std::string& gpus) {
  if (request.nproc && launch.nproc && *request.nproc != *launch.nproc)
    fail(Exit::kUsage, "--nproc {} and --nproc {}: which?", *request.nproc, *launch.nproc);
  const std::optional<int64_t> asked = request.nproc ? request.nproc : launch.nproc;
  const bool on_cpu = launch.device == DeviceKind::kCpu;
  if (gpus.empty() && !on_cpu) gpus = std::to_string(asked.value_or(1));
  const int64_t count = gpu_count(gpus);
  if (on_cpu && count > 0) fail(Exit::kUsage, "{} {} with --device cpu: leave one out", flag, gpus);
  const int64_t ranks = asked.value_or(std::max<int64_t>(count, 1));
  if (count > 0 && ranks > count) {
    fail(
        Exit::kUsage, "--nproc {} with {} {}: each rank needs a GPU of its own", ranks, flag, gpus);
  }
  return ranks;
}

void add_ranks(const Config& config, int64_t ranks, std::vector<std::string>& training) {
  if (config.origin("launch.nproc").find("--nproc") != std::string::npos) return;
  training.insert(training.end(), {"--nproc", std::to_string(ranks)});
}

namespace {

void write_job(const std::string& path, const WrittenJob& job) {
  if (fs::is_directory(path)) fail(Exit::kUsage, "-o {}: a folder; name a file", path);
  check_folder_of("-o", path);
  write_file(path, job.text);
  std::error_code error;
  if (!job.executable || !fs::is_regular_file(path, error)) return;  // /dev/stdout
  fs::permissions(path, fs::perms(0755), error);
  if (error) fail(Exit::kDisk, "{}: {}", path, error.message());
}

}  // namespace

void deliver(const JobRequest& request, const WrittenJob& job) {
  const std::string& file = request.output;
  if (!file.empty()) write_job(file, job);
  if (request.json) {
    fmt::print("{}\n", Json{{job.what, job.text}, {"run_dir", job.run_dir}, {"file", file}}.dump());
  } else if (file.empty()) {
    fmt::print("{}", job.text);
  }
  if (request.quiet) return;
  info("next    {}",
       file.empty() ? command_line() + " | " + job.piped : job.taker + " " + shell_quote(file));
}

}  // namespace gantrain
