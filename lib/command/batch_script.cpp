// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "command/flags.h"
#include "command/jobs.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr int64_t kNotice = 300;         // seconds from SIGUSR1 to the end, as a rule
constexpr int64_t kNoticeShare = 4;      // a quarter of a short time limit
constexpr int64_t kLastTaskWaits = 120;  // seconds, once the first task of the step has ended

// sbatch reads a directive's value up to a blank and knows quotes of its own; so neither is
// allowed.
void check_value(const std::string& flag, const std::string& value) {
  const bool plain = std::ranges::all_of(value, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_.,:+@=/%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return;
  fail(Exit::kUsage, "{} {}: letters, digits and -_.,:+@=/% only", flag, shell_quote(value));
}

void check_memory(const std::string& text) {
  std::string_view digits = text;
  if (!digits.empty() && std::string_view("KMGT").find(digits.back()) != std::string_view::npos)
    digits.remove_suffix(1);
  const auto amount = parse_int(digits);
  if (!amount || *amount < 0)
    fail(Exit::kUsage, "--mem {}: a number with K, M, G or T, as in 64G", shell_quote(text));
}

// A further flag of sbatch stands on a line of its own.
void check_directive(const std::string& text) {
  const bool one_line = text.find('\n') == std::string::npos;
  if (starts_with(text, "-") && text.size() > 1 && one_line) return;
  fail(Exit::kUsage,
       "--sbatch {}: one flag of sbatch in one line, as in --sbatch=--constraint=a100",
       shell_quote(text));
}

void check(const BatchJob& job) {
  if (job.name.empty()) fail(Exit::kUsage, "--job-name: a name is needed");
  check_value("--job-name", job.name);
  check_value("--partition", job.partition);
  check_value("--account", job.account);
  check_value("--qos", job.qos);
  if (!job.memory.empty()) check_memory(job.memory);
  for (const std::string& flag : job.sbatch) check_directive(flag);
}

// "1-12:30:00" and the like: days, hours, minutes and seconds from numbers between - and :.
std::optional<int64_t> slurm_seconds(const std::string& text) {
  const size_t dash = text.find('-');
  const bool has_days = dash != std::string::npos;
  const auto days = has_days ? parse_int(text.substr(0, dash)) : 0;
  std::vector<int64_t> parts;
  for (const std::string& part : split(has_days ? text.substr(dash + 1) : text, ':')) {
    const auto value = parse_int(part);
    if (!value || *value < 0 || *value > 1'000'000) return std::nullopt;
    parts.push_back(*value);
  }
  if (!days || *days < 0 || *days > 100'000 || parts.size() > 3) return std::nullopt;
  const bool from_hours = has_days || parts.size() == 3;  // else from minutes
  int64_t unit = from_hours ? 3600 : 60;
  int64_t seconds = *days * 86400;
  for (const int64_t part : parts) {
    seconds += part * unit;
    unit /= 60;
  }
  return seconds;
}

bool is_unlimited(const std::string& text) {
  return lower(text) == "unlimited" || lower(text) == "infinite";
}

// The time limit as sbatch reads it.
std::string time_text(const std::string& text) {
  if (slurm_seconds(text) || is_unlimited(text)) return text;
  const int64_t seconds = time_limit(text).value();
  return fmt::format("{}-{:02}:{:02}:{:02}",
                     seconds / 86400,
                     seconds / 3600 % 24,
                     seconds / 60 % 60,
                     seconds % 60);
}

int64_t notice(const BatchJob& job) {
  const auto limit = job.time.empty() ? std::nullopt : time_limit(job.time);
  return limit ? std::max<int64_t>(std::min(kNotice, *limit / kNoticeShare), 1) : kNotice;
}

int64_t tasks_per_node(const BatchJob& job) { return job.task_per_rank ? job.ranks_per_node : 1; }

int64_t cpus_per_task(const BatchJob& job) {
  return job.cpus_per_rank * (job.task_per_rank ? 1 : job.ranks_per_node);
}

std::string directives(const BatchJob& job) {
  std::string text;
  const auto add = [&text](const std::string& flag, const std::string& value) {
    if (!value.empty()) text += fmt::format("#SBATCH {}={}\n", flag, value);
  };
  add("--job-name", job.name);
  add("--partition", job.partition);
  add("--account", job.account);
  add("--qos", job.qos);
  add("--nodes", std::to_string(job.nodes));
  add("--ntasks-per-node", std::to_string(tasks_per_node(job)));
  add("--cpus-per-task", std::to_string(cpus_per_task(job)));
  if (gpu_count(job.gpus_per_node) > 0) add("--gpus-per-node", job.gpus_per_node);
  add("--mem", job.memory);
  if (!job.time.empty()) add("--time", time_text(job.time));
  add("--signal", fmt::format("USR1@{}", notice(job)));
  text += "#SBATCH --requeue\n#SBATCH --open-mode=append\n";
  for (const std::string& flag : job.sbatch) text += fmt::format("#SBATCH {}\n", flag);
  return text;
}

// The folder as a pattern of compgen, which reads quoted words as patterns, too.
std::string as_pattern(const std::string& folder) {
  std::string pattern;
  for (const char c : folder) {
    if (std::string_view("[]*?\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// What the script says of --resume, and the lines before srun that this needs.
struct Resume {
  std::string lines;
  std::string word = "auto";
};

Resume resume_of(const BatchJob& job) {
  if (job.resume == "auto") return {};
  return {fmt::format("# Once this run has a state of its own, a new start goes on from there.\n"
                      "resume={}\n"
                      "if compgen -G {}/'state-*.pt' >/dev/null; then resume=auto; fi\n",
                      shell_quote(job.resume),
                      shell_quote(as_pattern(job.run_dir))),
          "\"$resume\""};
}

// A wheel's program is told of PyTorch by its start in Python, which the job goes without.
std::string torch_line(const BatchJob& job) {
  if (job.torch.empty()) return "";
  return fmt::format("export GANTRAIN_TORCH_LIB={}\n", shell_quote(job.torch));
}

// The step: srun and gantrain with its flags, one line of the script. `gantrain` takes care of its
// own ranks: --kill-on-bad-exit would hide the exit code of the rank that failed behind 143.
std::string step(const BatchJob& job, const std::string& resume) {
  std::vector<std::string> words = {"srun",
                                    fmt::format("--ntasks={}", job.nodes * tasks_per_node(job)),
                                    fmt::format("--ntasks-per-node={}", tasks_per_node(job)),
                                    fmt::format("--cpus-per-task={}", cpus_per_task(job)),
                                    "--kill-on-bad-exit=0",
                                    fmt::format("--wait={}", kLastTaskWaits)};
  for (const std::string& word : job.srun) words.push_back(shell_quote(word));
  words.emplace_back("\\\n  \"$gantrain\"");
  for (const std::string& word : job.training) words.push_back(shell_quote(word));
  return join(words, " ") + " --resume " + resume;
}

}  // namespace

int64_t gpu_count(const std::string& gpus_per_node) {
  if (gpus_per_node.empty()) return 0;
  check_value("--gpus-per-node", gpus_per_node);
  const size_t colon = gpus_per_node.rfind(':');
  const auto count =
      parse_int(colon == std::string::npos ? gpus_per_node : gpus_per_node.substr(colon + 1));
  if (!count || *count < 0 || *count > 1024 || colon == 0)
    fail(Exit::kUsage, "--gpus-per-node {}: a number, or TYPE:NUMBER as in a100:8", gpus_per_node);
  return *count;
}

std::optional<int64_t> time_limit(const std::string& text) {
  if (is_unlimited(text)) return std::nullopt;
  auto seconds = slurm_seconds(text);
  const auto duration = parse_duration(text);
  if (!seconds && duration && *duration < 1e9) seconds = static_cast<int64_t>(std::ceil(*duration));
  if (seconds && *seconds > 0) return seconds;
  fail(Exit::kUsage,
       "--time {}: minutes, H:MM:SS, D-HH:MM:SS, a duration such as 36h, or UNLIMITED",
       shell_quote(text));
}

std::string batch_script(const BatchJob& job) {
  check(job);
  const Resume resume = resume_of(job);
  return fill_template(command_files().at("batch_script.sh.in"),
                       {{"directives", directives(job)},
                        {"gantrain", shell_quote(job.program)},
                        {"requeues", std::to_string(job.requeues)},
                        {"resume", resume.lines},
                        {"run", shell_quote(as_pattern(job.run_dir))},
                        {"step", step(job, resume.word)},
                        {"torch", torch_line(job)}});
}

}  // namespace gantrain
