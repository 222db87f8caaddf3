// SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "config/config.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace fs = std::filesystem;

fs::path make_numbered_folder(const fs::path& out, const std::string& name) {
  make_writable_folder(out);
  int64_t next = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(out)) {
    const std::string have = entry.path().filename();
    const size_t dash = have.find('-');
    if (dash == std::string::npos) continue;
    if (const auto number = parse_int(have.substr(0, dash))) next = std::max(next, *number + 1);
  }
  for (;; ++next) {
    const fs::path folder = out / fmt::format("{:05}-{}", next, name);
    std::error_code error;
    if (fs::create_directory(folder, error)) {
      const fs::path link = out / "latest";
      const fs::path fresh = out / fmt::format(".latest.{}", ::getpid());
      fs::create_directory_symlink(folder.filename(), fresh, error);
      if (!error) fs::rename(fresh, link, error);
      return folder;
    }
    if (error) fail(Exit::kDisk, "{}: cannot be made: {}", folder.string(), error.message());
  }
}

void write_status(const fs::path& folder, const std::string& line) {
  write_file(folder / "STATUS", line + "\n");
}

std::string read_status(const fs::path& folder) {
  // A folder that cannot be looked into is refused where it is made or opened for writing.
  std::error_code error;
  const fs::path file = folder / "STATUS";
  return fs::is_regular_file(file, error) ? trim(read_file(file)) : "";
}

namespace {

// PREFIX + kimg + SUFFIX of a folder, newest first.
std::vector<NumberedFile> find_numbered(const fs::path& folder,
                                        std::string_view prefix,
                                        std::string_view suffix) {
  std::vector<NumberedFile> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!starts_with(name, prefix) || !ends_with(name, suffix)) continue;
    const size_t digits = name.size() - prefix.size() - suffix.size();
    const auto kimg = parse_double(name.substr(prefix.size(), digits));
    if (kimg) files.push_back({entry.path(), static_cast<int64_t>(*kimg * 1000 + 0.5)});
  }
  std::sort(files.begin(), files.end(), [](const NumberedFile& a, const NumberedFile& b) {
    return a.images > b.images;
  });
  return files;
}

// Without pipes, folders and what else bears the name of a file that gantrain has written.
std::vector<NumberedFile> regular_ones(std::vector<NumberedFile> files) {
  const auto is_other = [](const NumberedFile& file) {
    std::error_code error;
    return !fs::is_regular_file(file.path, error);
  };
  files.erase(std::remove_if(files.begin(), files.end(), is_other), files.end());
  return files;
}

}  // namespace

std::vector<NumberedFile> find_states(const fs::path& folder) {
  return find_numbered(folder, "state-", ".pt");
}

std::vector<NumberedFile> find_models(const fs::path& folder) {
  return find_numbered(folder, "model-", ".safetensors");
}

fs::path find_model(const fs::path& file_or_run) {
  std::error_code error;
  if (!fs::exists(file_or_run, error)) {
    fail(Exit::kInput,
         "{}: no such model or run folder; model-*.safetensors or a run folder is needed",
         file_or_run.string());
  }
  if (!fs::is_directory(file_or_run)) return file_or_run;
  const std::vector<NumberedFile> models = regular_ones(find_models(file_or_run));
  if (models.empty()) fail(Exit::kInput, "{}: holds no model-*.safetensors", file_or_run.string());
  return models.front().path;
}

namespace {

// `files` are of one kind, newest first.
void prune(const std::vector<NumberedFile>& files, int64_t keep_last, int64_t keep_every) {
  for (size_t i = 0; i < files.size(); ++i) {
    // The first file at or after a multiple of keep_every stays.
    const int64_t before = i + 1 < files.size() ? files[i + 1].images : 0;
    const bool milestone = keep_every > 0 && files[i].images / keep_every > before / keep_every;
    if (milestone || static_cast<int64_t>(i) < keep_last) continue;
    std::error_code error;
    fs::remove(files[i].path, error);
  }
}

}  // namespace

void prune_states(const fs::path& folder, int64_t keep_last, int64_t keep_every) {
  prune(regular_ones(find_states(folder)), keep_last, keep_every);
}

void prune_models(const fs::path& folder, int64_t keep_last, int64_t keep_every) {
  prune(regular_ones(find_models(folder)), keep_last, keep_every);
}

int64_t set_aside(const fs::path& folder, int64_t images) {
  int64_t count = 0;
  for (const auto& files : {find_states(folder), find_models(folder)}) {
    for (const NumberedFile& file : files) {
      if (file.images <= images) break;
      std::error_code error;
      fs::rename(file.path, folder / ("superseded-" + file.path.filename().string()), error);
      if (!error) ++count;
    }
  }
  return count;
}

bool take_request(const fs::path& folder, const std::string& name) {
  std::error_code error;
  return fs::remove(folder / name, error);
}

std::string generate_command(const std::string& model, const std::string& more) {
  return fmt::format(
      "gantrain generate --model {} --seeds 0-63{} -o grid.png", shell_quote(model), more);
}

std::string resume_command(const std::string& command, const std::string& folder) {
  const bool named = command.find("--run-dir") != std::string::npos;
  // Before the first save, what the command asks for holds: the run may resume another one.
  const bool elsewhere =
      command.find("--resume") != std::string::npos && !find_states(folder).empty();
  return command + (named ? "" : " --run-dir " + shell_quote(folder)) +
         (elsewhere && !ends_with(command, " --resume auto") ? " --resume auto" : "");
}

Json describe_environment(const std::string& device, int64_t world) {
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  Json json = {{"gantrain", kVersion},
               {"started", timestamp()},
               {"host", host},
               {"cores", std::thread::hardware_concurrency()},
               {"device", device},
               {"ranks", world}};
  for (const char* name : {"SLURM_JOB_ID",
                           "SLURM_STEP_ID",
                           "SLURM_JOB_NAME",
                           "SLURM_RESTART_COUNT",
                           "TORCHELASTIC_RUN_ID",
                           "CUDA_VISIBLE_DEVICES",
                           "OMP_NUM_THREADS"}) {
    if (const char* value = std::getenv(name)) json["environment"][name] = value;
  }
  return json;
}

}  // namespace gantrain
