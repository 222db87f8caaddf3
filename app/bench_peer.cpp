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

// The beginning of a command line: the peer's environment.
std::vector<std::string> environment_of(const Peer& peer) {
  std::vector<std::string> words = {"env"};
  for (const std::string& name : peer.unset) words.insert(words.end(), {"-u", name});
  return words;
}

// Returns the last line of the command's output that is JSON.
Json answer_of(const Peer& peer, const std::vector<std::string>& words) {
  const Said said = run(quoted(words));
  Json answer;
  for (const std::string& line : said.lines) {
    if (starts_with(line, "{")) answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  }
  if (said.status != 0 || !answer.is_object())
    fail(Exit::kEnvironment, "{} failed: {}", peer.script, said.lines.back());
  return answer;
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

std::string why_not_import(const Peer& peer, const std::string& modules) {
  if (!std::filesystem::exists(peer.script)) return "there is no " + peer.script;
  const Said said = run(quoted({peer.python, "-c", "import " + modules}));
  if (said.status == 0) return "";
  return fmt::format("{} has not all of {}: {}", peer.python, modules, said.lines.back());
}

Json run_peer(const Peer& peer, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = environment_of(peer);
  words.insert(words.end(), {peer.python, peer.script});
  words.insert(words.end(), arguments.begin(), arguments.end());
  return answer_of(peer, words);
}

Json run_under_torchrun(const Peer& peer,
                        int64_t ranks,
                        const std::vector<std::string>& arguments) {
  std::vector<std::string> words = environment_of(peer);
  words.insert(words.end(),
               {"OMP_NUM_THREADS=1",
                peer.python,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
                std::to_string(ranks),
                peer.script});
  words.insert(words.end(), arguments.begin(), arguments.end());
  return answer_of(peer, words);
}

}  // namespace gantrain
