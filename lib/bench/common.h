// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// What the benchmarks share to describe several measurements. No torch.

// Returns {"median": m, "quartiles": [a, b]} of several measurements.
Json spread_of(const std::vector<double>& values);
double median_of(const Json& spread);
// Returns its quartiles, multiplied by `factor`: "   0.123 .. 0.145  ".
std::string quartiles_of(const Json& spread, double factor = 1);
// Returns {"ratio": r, "interval": [a, b]}: the geometric mean and its 95 % interval, which a
// single ratio has not.
Json ratio_of(const std::vector<double>& ratios);
// Returns the paired quotients a[i] / b[i].
std::vector<double> quotients(const std::vector<double>& a, const std::vector<double>& b);
// Returns "0.612 (0.598 .. 0.626)" for ratio_of(); "0.612" where there was one measurement.
std::string ratio_text(const Json& ratio);

// Returns the seconds that the work takes.
double seconds_of(const std::function<void()>& work);
// Calls all measurements `rounds` times, in the order AB BA AB ...
void in_turns(int64_t rounds, const std::vector<std::function<void()>>& measurements);

// Runs the words as a shell's command, calls `read` with each line of its output and of its errors
// (of a very long line with its parts), and returns what waitpid() says of its end. Throws
// UserError(kEnvironment) where no process can be started.
int run_shell(const std::vector<std::string>& words,
              const std::function<void(const std::string& line)>& read);

// Returns how many processes wanted to run in the last minute: what disturbs the clock.
double load_average();

// A new folder that is removed with all that is in it when this object dies. Throws
// UserError(kDisk) where it cannot be made.
class ScratchFolder {
 public:
  // It lies in `parent`, or in the system's folder for temporary files.
  explicit ScratchFolder(const std::filesystem::path& parent = {});
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Python scripts that run the same benchmark under PyTorch.
struct Peers {
  std::string python;              // the interpreter
  std::string scripts;             // the folder of the scripts
  std::vector<std::string> unset;  // environment variables that they do without
};

// A run of one of them.
struct PeerCall {
  std::string script;  // its file name
  std::vector<std::string> arguments;
  int64_t ranks = 0;  // under torchrun, with one thread in each of so many ranks; 0: alone
};

// Returns why the script cannot be run with torch of that version ("2.11"), or "" if it can.
std::string why_not(const Peers& peers, const std::string& script, const std::string& version);
// Returns why the interpreter cannot import those modules ("PIL, zipfile"), or "" if it can.
std::string why_not_import(const Peers& peers,
                           const std::string& script,
                           const std::string& modules);

// Runs a script and returns the last line of its standard output that is JSON. If that fails,
// throws UserError(kEnvironment) with the last line that the command wrote.
Json run_peer(const Peers& peers, const PeerCall& call);

// Appends "--flag" and its value for each of them.
void append_flags(std::vector<std::string>& arguments, const std::map<std::string, int64_t>& flags);

// How a benchmark ends.
struct BenchEnd {
  bool json = false;        // one JSON line, last on standard output
  std::string peer = {};    // what it was to be compared with: "PyTorch"
  std::string reason = {};  // why it was not; "" where it was
};
// Says what was not compared, adds the load to the result, prints it if asked to; returns the exit
// status.
int finish_bench(Json& result, const BenchEnd& end);

}  // namespace gantrain
