// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include "command/flags.h"
#include "config/full_schema.h"
#include "config/presets.h"
#include "main/help.h"
#include "main/verbs.h"
#include "metrics/metric_table.h"
#include "util/text.h"

namespace gantrain {

namespace {

using Words = std::vector<std::string>;

constexpr size_t kWidth = 100;  // columns of a line
constexpr size_t kIndent = 26;  // where the second column of a table begins

// A row of a table: the term, and the text beside it in lines that are not too long.
std::string row(const std::string& term, const std::string& text) {
  std::string out = "  " + term, line;
  const auto put = [&] {
    const size_t at = out.size() - (out.rfind('\n') + 1);  // npos + 1 is 0
    if (at + 1 > kIndent) out += "\n" + std::string(kIndent, ' ');
    if (at + 1 <= kIndent) out += std::string(kIndent - at, ' ');
    out += line;
    line.clear();
  };
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && kIndent + line.size() + 1 + word.size() > kWidth) put();
    line += (line.empty() ? "" : " ") + word;
  }
  put();
  return out + "\n";
}

const Key* find_key(const Schema& schema, const std::string& path) {
  for (const Key& key : schema) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

// The key of this path, of the first recipe that has it.
std::string key_row(const std::string& term, const std::string& path) {
  for (const RecipeFacts& recipe : recipe_facts()) {
    const Schema schema = full_schema(recipe.name);
    if (const Key* key = find_key(schema, path))
      return row(term, fmt::format("{} [{}]", key->help, key->allowed()));
  }
  throw std::logic_error("help names the key " + path + ", which there is not");
}

// `verb` is "train", "data pack"; `word` a flag of it, or a key.
std::string flag_row(const VerbDescription& verb, const std::string& word) {
  if (!starts_with(word, "-")) return key_row(word, word);
  if (verb.name == "train") {
    for (const Flag& flag : flag_table()) {
      const Words names = split(flag.names, ',');
      if (std::find(names.begin(), names.end(), word) != names.end())
        return key_row(word, flag.key);
    }
  }
  for (const FlagDescription& flag : verb.flags) {
    if (std::find(flag.names.begin(), flag.names.end(), word) != flag.names.end())
      return row(word, flag.help);
  }
  throw std::logic_error(fmt::format("help names {} of {}, which there is not", word, verb.name));
}

std::string metric_rows() {
  std::string out;
  for (const MetricRow& metric : metric_table())
    out += row(metric.name, metric.help + std::string(metric.needs_detector ? " *" : ""));
  return out + row("*", "needs --detector FILE");
}

// The table that a line "@NAME WORD..." stands for. The parts of "data-pack" are words here.
std::string table(const Words& words) {
  const std::string name = join(split(words[0], '-'), " ");
  std::string out;
  if (name == "exit") {
    for (const ExitCode& exit : kExitCodes) out += row(exit.code, exit.meaning);
  } else if (name == "environment") {
    for (const EnvironmentVariable& one : kEnvironmentVariables) out += row(one.names, one.meaning);
  } else if (name == "presets") {
    for (const std::string& preset : preset_names()) out += row(preset, preset_about(preset));
  } else if (name == "metrics" && words.size() == 1) {
    out = metric_rows();
  } else {
    for (const VerbDescription& verb : describe_verbs(verbs())) {
      if (verb.name != name) continue;
      for (size_t i = 1; i < words.size(); ++i) out += flag_row(verb, words[i]);
    }
    if (out.empty()) throw std::logic_error("help names a table " + name + ", which there is not");
  }
  return out;
}

}  // namespace

const std::vector<HelpTopic>& help_topics() {
  static const std::vector<HelpTopic> topics = {
      {"start", "the first run, what it leaves, presets, the environment", kStartHelp},
      {"data", "pictures, labels, shapes; looking at data and packing it", kDataHelp},
      {"ddp", "ranks, nodes, batches, gradients, GPUs, failures", kDdpHelp},
      {"slurm", "batch scripts, workers of srun and mpirun, Kubernetes", kSlurmHelp},
      {"amp", "mixed precision, and its names in other programs", kAmpHelp},
      {"resume", "stopping, saving, going on; weights in and out", kResumeHelp},
      {"metrics", "FID and others, in a run and afterwards", kMetricsHelp},
      {"exit", "exit codes, and where the reasons of failures are", kExitHelp},
      {"flags", "every flag of the training, and its key", nullptr},
      {"keys", "every key of the configuration; keys RECIPE: one recipe's", nullptr},
  };
  return topics;
}

std::string topic_text(const HelpTopic& topic) {
  std::string out;
  for (const std::string& line : split(trim(topic.text), '\n'))
    out += starts_with(line, "@") ? table(split(line.substr(1), ' ')) : line + "\n";
  return out;
}

}  // namespace gantrain
