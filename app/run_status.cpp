// SPDX-License-Identifier: Apache-2.0
#include "run_status.h"

#include "train/run_folder.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

bool already_done(const Config& config) {
  const std::string folder = text_of(config.get("run.run_dir"));
  if (folder.empty() || text_of(config.get("run.resume")) != "auto") return false;
  const std::vector<std::string> words = split(read_status(folder), ' ');
  if (words.size() < 2 || words[0] != "done") return false;
  const auto reached = parse_double(words[1]);
  if (!reached || *reached < config.get("train.kimg").get<double>()) return false;
  info("{} is already done at {} kimg; a larger --kimg goes on, --resume none starts afresh",
       folder,
       words[1]);
  info("next    {}", generate_command(folder));
  return true;
}

void note_end(const std::string& folder, int status) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::remove(std::filesystem::path(folder) / "errors" / "pids.json", error);
  std::filesystem::remove(std::filesystem::path(folder) / "errors", error);  // if it is empty
  if (status == 0 || read_status(folder) != "running") return;
  if (status == static_cast<int>(Exit::kStopped) ||
      status == static_cast<int>(Exit::kInterrupted)) {
    write_status(folder, "stopped before it could save; the last state is resumable");
    return;
  }
  write_status(folder, fmt::format("failed with exit code {}; standard error said why", status));
}

}  // namespace gantrain
