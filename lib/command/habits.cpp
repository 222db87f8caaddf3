// SPDX-License-Identifier: Apache-2.0
#include "command/habits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "command/flags.h"
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
const std::vector<Respelling> kR3ganPresets = {{"cifar10", "r3gan-cifar"},
                                               {"ffhq-64", "r3gan-ffhq64"},
                                               {"ffhq-256", "r3gan-ffhq256"},
                                               {"imagenet-32", "r3gan-imagenet32"},
                                               {"imagenet-64", "r3gan-imagenet64"}};
// R3GAN's --aug is yes or no, StyleGAN's a word.
const std::vector<Respelling> kAugmentations = {
    {"noaug", "none"}, {"0", "none"}, {"false", "none"}, {"1", "fixed"}, {"true", "fixed"}};

// Where people know a flag from.
constexpr const char* kTorchrun = "torchrun";
constexpr const char* kStylegan = "StyleGAN";
constexpr const char* kMmagic = "MMagic";
constexpr const char* kAccelerate = "accelerate";
constexpr const char* kDiffusers = "diffusers";
constexpr const char* kLightning = "Lightning";
constexpr const char* kExamples = "PyTorch's examples";

using enum Meaning;

const std::vector<Habit> kHabits = {
    {"--standalone", kTorchrun, kNeedless, false, "one machine is the default"},
    {"--rdzv-endpoint", kTorchrun, kHint, true, kRendezvous},
    {"--rdzv-backend", kTorchrun, kHint, true, kRendezvous},
    {"--rdzv-id", kTorchrun, kHint, true, kRendezvous},
    {"--log-dir",
     kTorchrun,
     kHint,
     true,
     "log.txt and log-rank<k>.txt lie in the run's folder: --run-dir {0}"},
    {"--monitor-interval", kTorchrun, kNeedless, true, "a rank's end is seen at once"},
    {"--outdir", kStylegan, kSame, true, "--out {0}"},
    {"--gpus", kStylegan, kSame, true, "--nproc {0}"},
    {"--cfg",
     kStylegan,
     kSame,
     true,
     "--preset {0}",
     {{"auto", "stylegan2-ada"},
      {"paper256", "stylegan2-paper256"},
      {"paper512", "stylegan2-paper512"},
      {"paper1024", "stylegan2-paper1024"},
      {"cifar", "stylegan2-cifar"}}},
    {"--snap",
     kStylegan,
     kHint,
     true,
     "counts ticks, of 4 kimg there; saves are said in kimg here: --save-every {1}"},
    {"--aug", kStylegan, kSame, true, "--set ada.mode={0}", kAugmentations},
    {"--augpipe", kStylegan, kSame, true, "--set ada.pipe={0}"},
    {"--p", kStylegan, kSame, true, "--set ada.p={0}"},
    {"--target", kStylegan, kSame, true, "--set ada.target={0}"},
    {"--gamma", kStylegan, kSame, true, "--set gamma={0}"},
    {"--freezed", kStylegan, kSame, true, "--set freeze_d={0}"},
    {"--glr", kStylegan, kSame, true, "--set G.lr={0}"},
    {"--dlr", kStylegan, kSame, true, "--set D.lr={0}"},
    {"--batch-gpu", kStylegan, kSame, true, "--micro-batch {0}"},
    {"--cbase", kStylegan, kSame, true, "--set channel_base={0}"},
    {"--cmax", kStylegan, kSame, true, "--set channel_max={0}"},
    {"--map-depth", kStylegan, kSame, true, "--set map_depth={0}"},
    {"--mbstd-group", kStylegan, kSame, true, "--set mbstd_group={0}"},
    {"--tick", kStylegan, kSame, true, "--set train.tick={0}"},
    {"--allow-tf32", kStylegan, kSame, true, "--set precision.tf32={0}"},
    {"--workers", kStylegan, kSame, true, "--set data.workers={0}"},
    {"--fp32", kStylegan, kHint, true, "precision is said by one flag: --amp=off or --amp=fp16"},
    {"--subset",
     kStylegan,
     kHint,
     true,
     "train on a folder that holds those pictures: --data FOLDER"},
    {"--nhwc", kStylegan, kNeedless, true, "the memory format is chosen by the device"},
    {"--nobench", kStylegan, kNeedless, true, "--deterministic fixes the kernels"},
    {"--desc", kStylegan, kNeedless, true, "--run-dir and --out name the run's folder"},
    {"--g-batch-gpu",
     "R3GAN",
     kHint,
     true,
     "--micro-batch {0} for both networks, or --set G.accumulate=N for G alone"},
    {"--d-batch-gpu",
     "R3GAN",
     kHint,
     true,
     "--micro-batch {0} for both networks, or --set D.accumulate=N for D alone"},
    {"-n", kStylegan, kSame, false, "--dry-run"},
    {"--work-dir", kMmagic, kSame, true, "--run-dir {0}"},
    {"--launcher", kMmagic, kNeedless, true, "torchrun, Slurm and MPI are seen by their variables"},
    {"--auto-scale-lr", kMmagic, kSame, false, "--lr-scale linear"},
    {"--resume-from", kMmagic, kSame, true, "--resume {0}"},
    {"--load-from", kMmagic, kSame, true, "--init-from {0}"},
    {"--no-validate", kMmagic, kSame, false, "--metrics none"},
    {"--diff-seed", kMmagic, kNeedless, false, "every rank has draws of its own from one seed"},
    {"--num-processes", kAccelerate, kSame, true, "--nproc {0}"},
    {"--num-machines", kAccelerate, kSame, true, "--nnodes {0}"},
    {"--machine-rank", kAccelerate, kSame, true, "--node-rank {0}"},
    {"--main-process-ip", kAccelerate, kSame, true, "--master-addr {0}"},
    {"--main-process-port", kAccelerate, kSame, true, "--master-port {0}"},
    {"--mixed-precision", kAccelerate, kSame, true, "--amp={0}", kPrecisions},
    {"--multi-gpu", kAccelerate, kNeedless, false, "all visible GPUs are used"},
    {"--cpu", kAccelerate, kSame, false, "--device cpu"},
    {"--gradient-accumulation-steps", kAccelerate, kSame, true, "--accumulate {0}"},
    {"--num-cpu-threads-per-process", kAccelerate, kSame, true, "--threads {0}"},
    {"--output-dir", kDiffusers, kSame, true, "--run-dir {0}"},
    {"--train-data-dir", kDiffusers, kSame, true, "--data {0}"},
    {"--train-batch-size", kDiffusers, kHint, true, kBatchOfADevice},
    {"--learning-rate", kDiffusers, kHint, true, kTwoRates},
    {"--max-train-steps", kDiffusers, kHint, true, kCountsSteps},
    {"--num-train-epochs", kDiffusers, kHint, true, kCountsEpochs},
    {"--checkpointing-steps",
     kDiffusers,
     kHint,
     true,
     "counts iterations; saves are said in kimg here: --save-every (steps x batch / 1000)"},
    {"--checkpoints-total-limit", kDiffusers, kSame, true, "--keep-last {0}"},
    {"--resume-from-checkpoint", kDiffusers, kSame, true, "--resume {0}", {{"latest", "auto"}}},
    {"--random-flip", kDiffusers, kSame, false, "--mirror"},
    {"--dataloader-num-workers", kDiffusers, kSame, true, "--set data.workers={0}"},
    {"--max-grad-norm", kDiffusers, kSame, true, "--set optim.clip_norm={0}"},
    {"--use-ema", kDiffusers, kNeedless, false, "the averaged generator is always kept"},
    {"--report-to",
     kDiffusers,
     kNeedless,
     true,
     "stats.jsonl and TensorBoard files are always written"},
    {"--devices", kLightning, kSame, true, "--nproc {0}"},
    {"--num-nodes", kLightning, kSame, true, "--nnodes {0}"},
    {"--accelerator", kLightning, kSame, true, "--device {0}", kDevices},
    {"--precision", kLightning, kSame, true, "--amp={0}", kPrecisions},
    {"--strategy",
     kLightning,
     kHint,
     true,
     "ranks always train data-parallel; how they meet is --ddp-mode wrapper|dynamic|flat"},
    {"--max-steps", kLightning, kHint, true, kCountsSteps},
    {"--max-epochs", kLightning, kHint, true, kCountsEpochs},
    {"--accumulate-grad-batches", kLightning, kSame, true, "--accumulate {0}"},
    {"--gradient-clip-val", kLightning, kSame, true, "--set optim.clip_norm={0}"},
    {"--fast-dev-run",
     kLightning,
     kHint,
     false,
     "a short trial of everything is: gantrain --smoke"},
    {"--ckpt-path", kLightning, kSame, true, "--resume {0}"},
    {"--default-root-dir", kLightning, kSame, true, "--out {0}"},
    {"--max-time", kLightning, kSame, true, "--stop-after {0}"},
    // Scripts that many start from: PyTorch's DCGAN example, lucidrains' trainers.
    {"--batch-size,--batchSize", kExamples, kSame, true, "--batch {0}"},
    {"--lr", kExamples, kHint, true, kTwoRates},
    {"--epochs,--niter,--n-epochs", kExamples, kHint, true, kCountsEpochs},
    {"--steps,--iterations,--num-train-steps", kExamples, kHint, true, kCountsSteps},
    {"--dataroot,--dataset,--data-dir,--data-path", kExamples, kSame, true, "--data {0}"},
    {"--image-size,--imageSize,--img-size", kExamples, kSame, true, "--resolution {0}"},
    {"--num-workers", kExamples, kSame, true, "--set data.workers={0}"},
    {"--ngpu,--num-gpus", kExamples, kSame, true, "--nproc {0}"},
    {"--manual-seed,--manualSeed", kExamples, kSame, true, "--seed {0}"},
    {"--outf", kExamples, kSame, true, "--out {0}"},
    {"--cuda", kExamples, kSame, false, "--device cuda"},
    {"--no-cuda", kExamples, kSame, false, "--device cpu"},
    {"--fp16", kExamples, kSame, false, "--amp=fp16"},
    {"--bf16", kExamples, kSame, false, "--amp=bf16"},
    {"--multi-gpus", "lucidrains", kNeedless, false, "all visible GPUs are used"},
    {"--save-interval,--save-freq,--save-steps",
     kExamples,
     kHint,
     true,
     "saves are said in thousands of pictures here: --save-every KIMG"},
    {"--pretrained,--weights", kExamples, kSame, true, "--init-from {0}"},
    {"--deepspeed", kExamples, kHint, true, kOneOwnFile},
};

}  // namespace

const std::vector<Habit>& habits() { return kHabits; }

const std::map<std::string, std::vector<Respelling>>& respellings_of_own_flags() {
  static const std::map<std::string, std::vector<Respelling>> table = {
      {"--cond", kOnOff}, {"--device", kDevices}, {"--preset", kR3ganPresets}};
  return table;
}

std::string own_metrics(const std::string& value) {
  static const std::map<std::string, std::string> names = {{"fid50k_full", "fid"},
                                                           {"fid50k", "fid"},
                                                           {"kid50k_full", "kid"},
                                                           {"kid50k", "kid"},
                                                           {"pr50k3_full", "pr"},
                                                           {"pr50k3", "pr"},
                                                           {"ppl2_wend", "ppl"},
                                                           {"ppl_wend", "ppl"},
                                                           {"is50k", "is"}};
  std::vector<std::string> all;
  for (const std::string& one : split(value, ',')) {
    const auto at = names.find(trim(one));
    all.push_back(at == names.end() ? one : at->second);
  }
  return join(all, ",");
}

void check_no_pickle(const std::string& flag, const std::string& value) {
  if (!ends_with(lower(value), ".pkl")) return;
  const std::string model = value.substr(0, value.size() - 4) + ".safetensors";
  fail(Exit::kUsage,
       "{} {}: a network pickle holds weights, not the state of a run; gantrain import {} -o {}, "
       "then --init-from {} starts a run at them",
       flag,
       value,
       shell_quote(value),
       shell_quote(model),
       shell_quote(model));
}

namespace {

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
  // The flag itself says which of them there are.
  static const std::vector<std::string> kAmpWords = {
      "auto", "fp16", "bf16", "off", "no", "fp32", "float16", "bfloat16", "float32"};
  const bool apart = word == name && at_ + 1 < words_.size();  // the value follows, if there is one
  const std::string value = word != name ? word.substr(name.size() + 1)
                            : apart      ? words_[at_ + 1]
                                         : "";
  if (name == "--resume") check_no_pickle(name, value);
  if (name == "--metrics" && take_metrics(name, value)) {
    at_ += apart ? 1 : 0;
    return;
  }
  if (word == "--amp" && join_switch(word, kAmpWords)) return;
  if (word == "--dry-run" && join_switch(word, {"full", "short"})) return;
  for (const Flag& flag : flag_table()) {
    if (flag.is_switch && word == flag.names && flag.alone == nullptr && join_switch(word, yes_no))
      return;
  }
  const auto& respellings = respellings_of_own_flags();
  const auto theirs = respellings.find(name);
  const std::string own = theirs == respellings.end() ? value : respelled(theirs->second, value);
  if (own == value) {
    out_.arguments.push_back(word);
    return;
  }
  at_ += apart ? 1 : 0;
  out_.arguments.push_back(name + "=" + own);
  out_.lines.push_back(fmt::format("taken   {0} {1} for {0} {2}", name, value, own));
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
  const std::string text = fmt::format(fmt::runtime(habit.text), value, shortest(four_times));
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

Translation translate_habits(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& known) {
  return Translator(arguments, known).run();
}

}  // namespace gantrain
