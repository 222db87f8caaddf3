// SPDX-License-Identifier: Apache-2.0
#include "bench/common.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "util/error.h"
#include "util/sample.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

Json spread_of(const std::vector<double>& values) {
  return {{"median", median(values)},
          {"quartiles", {quantile(values, 0.25), quantile(values, 0.75)}}};
}

double median_of(const Json& spread) { return spread.at("median").get<double>(); }

std::string quartiles_of(const Json& spread, double factor) {
  const Json& quartiles = spread.at("quartiles");
  return fmt::format("{:>8.3f} .. {:<7.3f}",
                     factor * quartiles[0].get<double>(),
                     factor * quartiles[1].get<double>());
}

Json ratio_of(const std::vector<double>& ratios) {
  const Interval ratio = mean_ratio(ratios);
  Json json = {{"ratio", ratio.middle}};
  if (ratios.size() > 1) json["interval"] = {ratio.low, ratio.high};
  return json;
}

std::vector<double> quotients(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) all.push_back(a[i] / b[i]);
  return all;
}

std::string ratio_text(const Json& ratio) {
  const auto middle = ratio.at("ratio").get<double>();
  if (!ratio.contains("interval")) return fmt::format("{:.3f}", middle);
  const Json& interval = ratio.at("interval");
  return fmt::format(
      "{:.3f} ({:.3f} .. {:.3f})", middle, interval[0].get<double>(), interval[1].get<double>());
}

double seconds_of(const std::function<void()>& work) {
  const double start = monotonic_seconds();
  work();
  return monotonic_seconds() - start;
}

void in_turns(int64_t rounds, const std::vector<std::function<void()>>& measurements) {
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < measurements.size(); ++i)
      measurements[round % 2 == 0 ? i : measurements.size() - 1 - i]();
  }
}

int run_shell(const std::vector<std::string>& words,
              const std::function<void(const std::string&)>& read) {
  std::string command;
  for (const std::string& word : words) command += shell_quote(word) + " ";
  FILE* pipe = popen((command + "2>&1").c_str(), "re");
  if (pipe == nullptr) fail(Exit::kEnvironment, "cannot start a process: {}", errno_text());
  char line[4096];
  while (fgets(line, sizeof(line), pipe) != nullptr) read(line);
  return pclose(pipe);
}

double load_average() {
  double value = 0;
  std::ifstream("/proc/loadavg") >> value;
  return value;
}

ScratchFolder::ScratchFolder(const fs::path& parent) {
  const fs::path folder = parent.empty() ? fs::temp_directory_path() : parent;
  std::string name = (folder / "gantrain-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) fail(Exit::kDisk, "cannot make {}: {}", name, errno_text());
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

namespace {

struct PeerOutput {
  int status = 0;  // 0: the command succeeded
  std::vector<std::string> lines;
};

PeerOutput output_of(const std::vector<std::string>& words) {
  std::string text;
  const int status = run_shell(words, [&](const std::string& line) { text += line; });
  return {status, split(trim(text), '\n')};
}

std::string path_of(const Peers& peers, const std::string& script) {
  return peers.scripts + "/" + script;
}

}  // namespace

std::string why_not(const Peers& peers, const std::string& script, const std::string& version) {
  const std::string path = path_of(peers, script);
  if (!fs::exists(path)) return "there is no " + path;
  const PeerOutput said = output_of(
      {peers.python, "-c", "import torch, torch.distributed.run; print(torch.__version__)"});
  if (said.status != 0) return fmt::format("{} has no torch: {}", peers.python, said.lines.back());
  if (!starts_with(said.lines.back(), version + "."))
    return fmt::format("{} has torch {}, not {}", peers.python, said.lines.back(), version);
  return "";
}

std::string why_not_import(const Peers& peers,
                           const std::string& script,
                           const std::string& modules) {
  const std::string path = path_of(peers, script);
  if (!fs::exists(path)) return "there is no " + path;
  const PeerOutput said = output_of({peers.python, "-c", "import " + modules});
  if (said.status == 0) return "";
  return fmt::format("{} has not all of {}: {}", peers.python, modules, said.lines.back());
}

Json run_peer(const Peers& peers, const PeerCall& call) {
  const std::string path = path_of(peers, call.script);
  std::vector<std::string> words = {"env"};
  for (const std::string& name : peers.unset) words.insert(words.end(), {"-u", name});
  if (call.ranks > 0) words.emplace_back("OMP_NUM_THREADS=1");
  words.push_back(peers.python);
  if (call.ranks > 0) {
    words.insert(words.end(),
                 {"-m",
                  "torch.distributed.run",
                  "--standalone",
                  "--nproc-per-node",
                  std::to_string(call.ranks)});
  }
  words.push_back(path);
  words.insert(words.end(), call.arguments.begin(), call.arguments.end());
  const PeerOutput said = output_of(words);
  Json answer;
  for (const std::string& line : said.lines) {
    if (starts_with(line, "{")) answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  }
  if (said.status != 0 || !answer.is_object())
    fail(Exit::kEnvironment, "{} failed: {}", path, said.lines.back());
  return answer;
}

void append_flags(std::vector<std::string>& arguments,
                  const std::map<std::string, int64_t>& flags) {
  for (const auto& [flag, value] : flags)
    arguments.insert(arguments.end(), {flag, std::to_string(value)});
}

int finish_bench(Json& result, const BenchEnd& end) {
  if (!end.reason.empty()) {
    fmt::print("\nnot compared with {}: {}\n", end.peer, end.reason);
    result["peer_skipped"] = end.reason;
  }
  result["load"].push_back(load_average());
  if (end.json) fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace gantrain
