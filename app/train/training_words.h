// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "command/options.h"
#include "config/config.h"
#include "launch/options.h"

namespace gantrain {

// Reads the command line of a verb whose other flags are those of `gantrain train`: what `options`
// do not know, and what follows "--", comes back as words of the training, in this program's own
// words. Returns nothing where --help was asked for and printed. Throws UserError(kUsage) for flags
// that neither has.
std::optional<std::vector<std::string>> training_words(Options& options,
                                                       const std::vector<std::string>& arguments);

// Takes a flag by any of its names, with its value, out of the words: "--resume PATH" and
// "--resume=PATH".
std::vector<std::string> without_flag(const std::vector<std::string>& words,
                                      const std::vector<std::string>& names);

// What every verb is told that writes a training as a cluster's job.
struct JobRequest {
  std::optional<int64_t> nproc;
  std::string output;
  bool json = false;
  bool quiet = false;
};

// Its fields. `node`: what has ranks there, "node"; `job`: what is written, "script".
template <class Field>
void rank_fields(JobRequest& o, Field&& field, const std::string& node) {
  field("nproc",
        o.nproc,
        said("--nproc,--nproc-per-node"),
        between(1, 10000),
        fmt::format("ranks per {} (the GPUs, else 1)", node));
}
template <class Field>
void output_fields(JobRequest& o, Field&& field, const std::string& job) {
  field("output", o.output, said("-o,--output"), "file to write instead of standard output");
  field("json", o.json, fmt::format("one JSON line: the {}, its run folder and its file", job));
  field("quiet", o.quiet, said("-q,--quiet"), "do not print the next command");
}

// Throws UserError(kUsage) where the training was given one of the keys, which its job decides:
// "--nnodes: WHY".
void refuse_given(const Config& config,
                  std::initializer_list<const char*> keys,
                  const std::string& why);

// Returns the ranks of a node, from --nproc of the job or of the training and from its GPUs. `gpus`
// is what the flag of that name ("--gpus") says of them: "8", "a100:8"; where it is "", one for
// each rank is written there, but none with --device cpu. Throws UserError(kUsage) where these
// contradict each other.
int64_t ranks_of_node(const JobRequest& request,
                      const LaunchOptions& launch,
                      const std::string& flag,
                      std::string& gpus);
// Adds --nproc to the words of a training that do not have it.
void add_ranks(const Config& config, int64_t ranks, std::vector<std::string>& training);

// A job as it is written.
struct WrittenJob {
  std::string what;  // "script"
  std::string text;
  std::string run_dir;
  std::string taker;  // the command that takes its file: "sbatch"
  std::string piped;  // the same behind a pipe
  bool executable = false;
};
// Writes or prints a job, and says what can be run next. Throws UserError that names -o.
void deliver(const JobRequest& request, const WrittenJob& job);

}  // namespace gantrain
