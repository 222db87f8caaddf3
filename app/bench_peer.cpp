// SPDX-License-Identifier: Apache-2.0
#include "bench_peer.h"

#include <cstdio>
#include <filesystem>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

struct Said {
  int status = 0;  // 0: the command succeeded
  std::vector<std::string> lines;
};

// A shell's command line, both streams together.
Said run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) fail(Exit::kEnvironment, "cannot start a process: {}", errno_text());
  std::string text;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) text.append(buffer, n);
  const int status = pclose(pipe);
  return {status, split(trim(text), '\n')};
}

std::string quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quote(word);
  return line;
}

}  // namespace

std::string why_not(const Peer& peer, const std::string& version) {
  if (!std::filesystem::exists(peer.script)) return "there is no " + peer.script;
  const Said said = run(
      quoted({peer.python, "-c", "import torch, torch.distributed.run; print(torch.__version__)"}));
  if (said.status != 0) return fmt::format("{} has no torch: {}", peer.python, said.lines.back());
  if (!starts_with(said.lines.back(), version + "."))
    return fmt::format("{} has torch {}, not {}", peer.python, said.lines.back(), version);
  return "";
}

Json run_under_torchrun(const Peer& peer,
                        int64_t ranks,
                        const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"env",
                                    "OMP_NUM_THREADS=1",
                                    peer.python,
                                    "-m",
                                    "torch.distributed.run",
                                    "--standalone",
                                    "--nproc-per-node",
                                    std::to_string(ranks),
                                    peer.script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Said said = run(quoted(words));
  Json answer;
  for (const std::string& line : said.lines) {
    if (starts_with(line, "{")) answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  }
  if (said.status != 0 || !answer.is_object())
    fail(Exit::kEnvironment, "{} failed: {}", peer.script, said.lines.back());
  return answer;
}

}  // namespace gantrain
