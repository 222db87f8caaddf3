// SPDX-License-Identifier: Apache-2.0
#include "habits.h"

#include <fmt/format.h>

#include <algorithm>

#include "flags.h"
#include "own_values.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kBatchOfADevice =
    "counts pictures of one device; --batch is the batch of all together: --batch N, and if that "
    "does not fit, --micro-batch {0}";
constexpr const char* kCountsSteps =
    "counts iterations; the length of a run is said in thousands of pictures here: --kimg (steps x "
    "batch / 1000)";
constexpr const char* kCountsEpochs =
    "counts passes over the data; the length of a run is said in thousands of pictures here: "
    "--kimg (passes x pictures / 1000)";
constexpr const char* kRendezvous =
    "nodes meet at the first one here: --nnodes N --node-rank I --master-addr HOST --master-port "
    "PORT on each; under torchrun nothing need be said";
constexpr const char* kTwoRates =
    "the two networks have a rate each: --set G.lr={0} --set D.lr={0}";
constexpr const char* kOneOwnFile = "no such file is read; the run's flags are all";

// A value that means yes, or no, in other trainers' words.
const std::vector<Respelling> kOnOff = {
    {"1", "on"}, {"true", "on"}, {"yes", "on"}, {"0", "off"}, {"false", "off"}, {"no", "off"}};
const std::vector<Respelling> kPrecisions = {{"no", "off"},
                                             {"32", "off"},
                                             {"32-true", "off"},
                                             {"16", "fp16"},
                                             {"16-mixed", "fp16"},
                                             {"bf16-mixed", "bf16"},
                                             {"float16", "fp16"},
                                             {"bfloat16", "bf16"}};
const std::vector<Respelling> kDevices = {{"gpu", "cuda"}};

std::vector<Habit> torchrun_habits() {
  using enum Meaning;
  const char* whose = "torchrun";
  return {
      {"--standalone", whose, kNeedless, false, "one machine is the default"},
      {"--rdzv-endpoint", whose, kHint, true, kRendezvous},
      {"--rdzv-backend", whose, kHint, true, kRendezvous},
      {"--rdzv-id", whose, kHint, true, kRendezvous},
      {"--log-dir",
       whose,
       kHint,
       true,
       "log.txt and log-rank<k>.txt lie in the run's folder: --run-dir {0}"},
      {"--monitor-interval", whose, kNeedless, true, "a rank's end is seen at once"},
  };
}

std::vector<Habit> stylegan_habits() {
  using enum Meaning;
  const char* whose = "StyleGAN";
  return {
      {"--outdir", whose, kSame, true, "--out {0}"},
      {"--gpus", whose, kSame, true, "--nproc {0}"},
      {"--cfg",
       whose,
       kSame,
       true,
       "--preset {0}",
       {{"auto", "stylegan2-ada"},
        {"paper256", "stylegan2-paper256"},
        {"paper512", "stylegan2-paper512"},
        {"paper1024", "stylegan2-paper1024"},
        {"cifar", "stylegan2-cifar"}}},
      {"--snap",
       whose,
       kHint,
       true,
       "counts ticks, of 4 kimg there; saves are said in kimg here: --save-every {1}"},
      {"--aug", whose, kSame, true, "--set ada.mode={0}", {{"noaug", "none"}}},
      {"--augpipe", whose, kSame, true, "--set ada.pipe={0}"},
      {"--p", whose, kSame, true, "--set ada.p={0}"},
      {"--target", whose, kSame, true, "--set ada.target={0}"},
      {"--gamma", whose, kSame, true, "--set gamma={0}"},
      {"--freezed", whose, kSame, true, "--set stylegan2.freeze_d={0}"},
      {"--glr", whose, kSame, true, "--set G.lr={0}"},
      {"--dlr", whose, kSame, true, "--set D.lr={0}"},
      {"--batch-gpu", whose, kSame, true, "--micro-batch {0}"},
      {"--cbase", whose, kSame, true, "--set stylegan2.channel_base={0}"},
      {"--cmax", whose, kSame, true, "--set stylegan2.channel_max={0}"},
      {"--map-depth", whose, kSame, true, "--set stylegan2.map_depth={0}"},
      {"--mbstd-group", whose, kSame, true, "--set stylegan2.mbstd_group={0}"},
      {"--tick", whose, kSame, true, "--set train.tick={0}"},
      {"--allow-tf32", whose, kSame, true, "--set precision.tf32={0}"},
      {"--workers", whose, kSame, true, "--set data.workers={0}"},
      {"--fp32", whose, kHint, true, "precision is said by one flag: --amp=off or --amp=fp16"},
      {"--subset",
       whose,
       kHint,
       true,
       "train on a folder that holds those pictures: --data FOLDER"},
      {"--nhwc", whose, kNeedless, true, "the memory format is chosen by the device"},
      {"--nobench", whose, kNeedless, true, "--deterministic fixes the kernels"},
      {"-n", whose, kSame, false, "--dry-run"},
  };
}

std::vector<Habit> mmagic_habits() {
  using enum Meaning;
  const char* whose = "MMagic";
  return {
      {"--work-dir", whose, kSame, true, "--run-dir {0}"},
      {"--launcher", whose, kNeedless, true, "torchrun, Slurm and MPI are seen by their variables"},
      {"--auto-scale-lr", whose, kSame, false, "--lr-scale linear"},
      {"--resume-from", whose, kSame, true, "--resume {0}"},
      {"--load-from", whose, kSame, true, "--init-from {0}"},
      {"--no-validate", whose, kSame, false, "--metrics none"},
      {"--diff-seed", whose, kNeedless, false, "every rank has draws of its own from one seed"},
  };
}

std::vector<Habit> accelerate_habits() {
  using enum Meaning;
  const char* whose = "accelerate";
  const char* diffusers = "diffusers";
  return {
      {"--num-processes", whose, kSame, true, "--nproc {0}"},
      {"--num-machines", whose, kSame, true, "--nnodes {0}"},
      {"--machine-rank", whose, kSame, true, "--node-rank {0}"},
      {"--main-process-ip", whose, kSame, true, "--master-addr {0}"},
      {"--main-process-port", whose, kSame, true, "--master-port {0}"},
      {"--mixed-precision", whose, kSame, true, "--amp={0}", kPrecisions},
      {"--multi-gpu", whose, kNeedless, false, "all visible GPUs are used"},
      {"--cpu", whose, kSame, false, "--device cpu"},
      {"--gradient-accumulation-steps", whose, kSame, true, "--accumulate {0}"},
      {"--num-cpu-threads-per-process", whose, kSame, true, "--threads {0}"},
      {"--output-dir", diffusers, kSame, true, "--run-dir {0}"},
      {"--train-data-dir", diffusers, kSame, true, "--data {0}"},
      {"--train-batch-size", diffusers, kHint, true, kBatchOfADevice},
      {"--learning-rate", diffusers, kHint, true, kTwoRates},
      {"--max-train-steps", diffusers, kHint, true, kCountsSteps},
      {"--num-train-epochs", diffusers, kHint, true, kCountsEpochs},
      {"--checkpointing-steps",
       diffusers,
       kHint,
       true,
       "counts iterations; saves are said in kimg here: --save-every (steps x batch / 1000)"},
      {"--checkpoints-total-limit", diffusers, kSame, true, "--keep-last {0}"},
      {"--resume-from-checkpoint", diffusers, kSame, true, "--resume {0}", {{"latest", "auto"}}},
      {"--random-flip", diffusers, kSame, false, "--mirror"},
      {"--dataloader-num-workers", diffusers, kSame, true, "--set data.workers={0}"},
      {"--max-grad-norm", diffusers, kSame, true, "--set optim.clip_norm={0}"},
      {"--use-ema", diffusers, kNeedless, false, "the averaged generator is always kept"},
      {"--report-to",
       diffusers,
       kNeedless,
       true,
       "stats.jsonl and TensorBoard files are always written"},
  };
}

std::vector<Habit> lightning_habits() {
  using enum Meaning;
  const char* whose = "Lightning";
  return {
      {"--devices", whose, kSame, true, "--nproc {0}"},
      {"--num-nodes", whose, kSame, true, "--nnodes {0}"},
      {"--accelerator", whose, kSame, true, "--device {0}", kDevices},
      {"--precision", whose, kSame, true, "--amp={0}", kPrecisions},
      {"--strategy",
       whose,
       kHint,
       true,
       "ranks always train data-parallel; how they meet is --ddp-mode wrapper|dynamic|flat"},
      {"--max-steps", whose, kHint, true, kCountsSteps},
      {"--max-epochs", whose, kHint, true, kCountsEpochs},
      {"--accumulate-grad-batches", whose, kSame, true, "--accumulate {0}"},
      {"--gradient-clip-val", whose, kSame, true, "--set optim.clip_norm={0}"},
      {"--fast-dev-run", whose, kHint, false, "a short trial of everything is: gantrain --smoke"},
      {"--ckpt-path", whose, kSame, true, "--resume {0}"},
      {"--default-root-dir", whose, kSame, true, "--out {0}"},
      {"--max-time", whose, kSame, true, "--stop-after {0}"},
  };
}

// Scripts that many start from: PyTorch's DCGAN example, lucidrains' trainers.
std::vector<Habit> script_habits() {
  using enum Meaning;
  const char* whose = "PyTorch's examples";
  return {
      {"--batch-size,--batchSize", whose, kSame, true, "--batch {0}"},
      {"--lr", whose, kHint, true, kTwoRates},
      {"--epochs,--niter", whose, kHint, true, kCountsEpochs},
      {"--steps,--iterations,--num-train-steps", whose, kHint, true, kCountsSteps},
      {"--dataroot,--dataset,--data-dir,--data-path", whose, kSame, true, "--data {0}"},
      {"--image-size,--imageSize", whose, kSame, true, "--resolution {0}"},
      {"--ngpu,--num-gpus", whose, kSame, true, "--nproc {0}"},
      {"--manual-seed,--manualSeed", whose, kSame, true, "--seed {0}"},
      {"--outf", whose, kSame, true, "--out {0}"},
      {"--cuda", whose, kSame, false, "--device cuda"},
      {"--no-cuda", whose, kSame, false, "--device cpu"},
      {"--fp16", whose, kSame, false, "--amp=fp16"},
      {"--bf16", whose, kSame, false, "--amp=bf16"},
      {"--multi-gpus", "lucidrains", kNeedless, false, "all visible GPUs are used"},
      {"--save-interval,--save-freq,--save-steps",
       whose,
       kHint,
       true,
       "saves are said in thousands of pictures here: --save-every KIMG"},
      {"--pretrained,--weights", whose, kSame, true, "--init-from {0}"},
      {"--deepspeed", whose, kHint, true, kOneOwnFile},
  };
}

std::string hyphens(std::string name) {
  std::replace(
      name.begin() + std::min<long>(2, static_cast<long>(name.size())), name.end(), '_', '-');
  return name;
}

const Habit* find_habit(const std::string& name) {
  for (const Habit& habit : habits()) {
    for (const std::string& one : split(habit.names, ',')) {
      if (one == name || one == hyphens(name)) return &habit;
    }
  }
  return nullptr;
}

std::string respelled(const std::vector<Respelling>& words, const std::string& value) {
  for (const Respelling& one : words) {
    if (lower(value) == one.theirs) return one.ours;
  }
  return value;
}

// One flag of the command line with its value, as it was given.
struct Given {
  std::string name;
  std::optional<std::string> value;
  std::string text() const { return value ? name + " " + *value : name; }
};

// Walks through the command line and builds the translated one.
class Translator {
 public:
  Translator(const std::vector<std::string>& words, const std::vector<std::string>& known)
      : words_(words), known_(known) {}

  Translation run();

 private:
  bool is_known(const std::string& name) const {
    return std::find(known_.begin(), known_.end(), name) != known_.end();
  }
  // Takes the word after the flag, if that is one of these.
  bool join_switch(const std::string& name, const std::vector<std::string>& values);
  void take_own(const std::string& word, const std::string& name);
  // Takes the flag if its value has another name here.
  bool take_metrics(const std::string& name, const std::string& value);
  void take(const Habit& habit, Given given);

  const std::vector<std::string>& words_;
  const std::vector<std::string>& known_;
  size_t at_ = 0;
  Translation out_;
};

bool Translator::join_switch(const std::string& name, const std::vector<std::string>& values) {
  if (at_ + 1 >= words_.size()) return false;
  const std::string value = words_[at_ + 1];
  if (std::find(values.begin(), values.end(), lower(value)) == values.end()) return false;
  out_.arguments.push_back(name + "=" + lower(value));
  ++at_;
  return true;
}

bool Translator::take_metrics(const std::string& name, const std::string& value) {
  const std::string own = own_metrics(value);
  if (own == value) return false;
  out_.arguments.push_back(name + "=" + own);
  out_.lines.push_back(
      fmt::format("taken   {0} {1} for {0} {2}; --set metrics.images=50000 takes as many pictures",
                  name,
                  value,
                  own));
  return true;
}

// A flag of this program. A switch takes its value behind an equals sign alone, by CLI11.
void Translator::take_own(const std::string& word, const std::string& name) {
  static const std::vector<std::string> yes_no = {
      "yes", "no", "on", "off", "true", "false", "1", "0"};
  const bool apart = word == name && at_ + 1 < words_.size();  // the value follows, if there is one
  const std::string value = word != name ? word.substr(name.size() + 1)
                            : apart      ? words_[at_ + 1]
                                         : "";
  if (name == "--resume") check_no_pickle(name, value);
  if (name == "--metrics" && take_metrics(name, value)) {
    at_ += apart ? 1 : 0;
    return;
  }
  if (word == "--amp" && join_switch(word, {"auto", "fp16", "bf16", "off"})) return;
  if (word == "--dry-run" && join_switch(word, {"full", "short"})) return;
  for (const Flag& flag : flag_table()) {
    if (flag.is_switch && word == flag.names && flag.alone == nullptr && join_switch(word, yes_no))
      return;
  }
  out_.arguments.push_back(word);
  if (!apart) return;
  if (name == "--cond") out_.arguments.push_back(respelled(kOnOff, words_[++at_]));
  if (name == "--device") out_.arguments.push_back(respelled(kDevices, words_[++at_]));
}

void Translator::take(const Habit& habit, Given given) {
  if (habit.has_value && !given.value) {
    if (at_ + 1 >= words_.size())
      fail(Exit::kUsage,
           "{} needs a value; gantrain help flags shows this program's own",
           given.name);
    given.value = words_[++at_];
  }
  const std::string value = respelled(habit.respellings, given.value.value_or(""));
  const double four_times = 4 * parse_double(value).value_or(1);
  const std::string text = fmt::format(fmt::runtime(habit.text), value, number(four_times));
  if (habit.meaning == Meaning::kHint) fail(Exit::kUsage, "{}: {}", given.text(), text);
  if (habit.meaning == Meaning::kNeedless) {
    out_.lines.push_back(fmt::format("taken   {}: not needed, {}", given.text(), text));
    return;
  }
  const size_t blank = text.find(' ');
  out_.arguments.push_back(text.substr(0, blank));
  if (blank != std::string::npos) out_.arguments.push_back(text.substr(blank + 1));
  out_.lines.push_back(fmt::format("taken   {} for {}", given.text(), text));
}

Translation Translator::run() {
  for (; at_ < words_.size(); ++at_) {
    const std::string& word = words_[at_];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    if (!starts_with(word, "-") || word == "--") {
      out_.arguments.push_back(word);
    } else if (is_known(name)) {
      take_own(word, name);
    } else if (is_known(hyphens(name))) {
      const std::string own = hyphens(name);
      take_own(value ? own + "=" + *value : own, own);
    } else if (const Habit* habit = find_habit(name)) {
      take(*habit, {name, value});
    } else {
      out_.arguments.push_back(word);
    }
  }
  return std::move(out_);
}

}  // namespace

const std::vector<Habit>& habits() {
  static const std::vector<Habit> table = [] {
    std::vector<Habit> all;
    for (const auto& part : {torchrun_habits(),
                             stylegan_habits(),
                             mmagic_habits(),
                             accelerate_habits(),
                             lightning_habits(),
                             script_habits()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return table;
}

Translation translate_habits(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& known) {
  return Translator(arguments, known).run();
}

}  // namespace gantrain
