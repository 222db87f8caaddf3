// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
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
constexpr const char* kLogFiles =
    "log.txt and log-rank<k>.txt lie in the run's folder: --run-dir {0}";
constexpr const char* kCountsTicks =
    "counts ticks, of 4 kimg there; saves are said in kimg here: --save-every {1}";
constexpr const char* kBatchOfG =
    "--micro-batch {0} for both networks, or --set G.accumulate=N for G alone";
constexpr const char* kBatchOfD =
    "--micro-batch {0} for both networks, or --set D.accumulate=N for D alone";
constexpr const char* kSavesBySteps =
    "counts iterations; saves are said in kimg here: --save-every (steps x batch / 1000)";
constexpr const char* kStrategy =
    "ranks always train data-parallel; how they meet is --ddp-mode wrapper|dynamic|flat";
constexpr const char* kSavesInKimg =
    "saves are said in thousands of pictures here: --save-every KIMG";

// A value that means yes, or no, in other trainers' words.
const Respellings kOnOff = {
    {"1", "on"}, {"true", "on"}, {"yes", "on"}, {"0", "off"}, {"false", "off"}, {"no", "off"}};
const Respellings kPrecisions = {{"no", "off"},
                                 {"32", "off"},
                                 {"32-true", "off"},
                                 {"16", "fp16"},
                                 {"16-mixed", "fp16"},
                                 {"bf16-mixed", "bf16"},
                                 {"float16", "fp16"},
                                 {"bfloat16", "bf16"}};
const Respellings kDevices = {{"gpu", "cuda"}};
const Respellings kStyleganPresets = {{"auto", "stylegan2-ada"},
                                      {"paper256", "stylegan2-paper256"},
                                      {"paper512", "stylegan2-paper512"},
                                      {"paper1024", "stylegan2-paper1024"},
                                      {"cifar", "stylegan2-cifar"}};
const Respellings kR3ganPresets = {{"cifar10", "r3gan-cifar"},
                                   {"ffhq-64", "r3gan-ffhq64"},
                                   {"ffhq-256", "r3gan-ffhq256"},
                                   {"imagenet-32", "r3gan-imagenet32"},
                                   {"imagenet-64", "r3gan-imagenet64"}};
// R3GAN's --aug is yes or no, StyleGAN's a word.
const Respellings kAugmentations = {
    {"noaug", "none"}, {"0", "none"}, {"false", "none"}, {"1", "fixed"}, {"true", "fixed"}};

// Words of other trainers for values of the program's own flags.
const std::map<std::string, Respellings> kOfOwnFlags = {
    {"--cond", kOnOff}, {"--device", kDevices}, {"--preset", kR3ganPresets}};

using enum Meaning;

const std::vector<Habit> kHabits = {
    // What is trained, and on what.
    {"--cfg", kSame, true, "--preset {0}", kStyleganPresets},
    {"--aug", kSame, true, "--set ada.mode={0}", kAugmentations},
    {"--augpipe", kSame, true, "--set ada.pipe={0}"},
    {"--p", kSame, true, "--set ada.p={0}"},
    {"--target", kSame, true, "--set ada.target={0}"},
    {"--freezed", kSame, true, "--set freeze_d={0}"},
    {"--workers,--dataloader-num-workers,--num-workers", kSame, true, "--set data.workers={0}"},
    {"--subset", kHint, true, "train on a folder that holds those pictures: --data FOLDER"},
    {"--train-data-dir,--dataroot,--dataset,--data-dir,--data-path", kSame, true, "--data {0}"},
    {"--random-flip", kSame, false, "--mirror"},
    {"--image-size,--imageSize,--img-size", kSame, true, "--resolution {0}"},
    // Where it runs.
    {"--standalone", kNeedless, false, "one machine is the default"},
    {"--rdzv-endpoint,--rdzv-backend,--rdzv-id", kHint, true, kRendezvous},
    {"--monitor-interval", kNeedless, true, "a rank's end is seen at once"},
    {"--gpus,--num-processes,--devices,--ngpu,--num-gpus", kSame, true, "--nproc {0}"},
    {"--launcher", kNeedless, true, "torchrun, Slurm and MPI are seen by their variables"},
    {"--num-machines,--num-nodes", kSame, true, "--nnodes {0}"},
    {"--machine-rank", kSame, true, "--node-rank {0}"},
    {"--main-process-ip", kSame, true, "--master-addr {0}"},
    {"--main-process-port", kSame, true, "--master-port {0}"},
    {"--multi-gpu,--multi-gpus", kNeedless, false, "all visible GPUs are used"},
    {"--cpu,--no-cuda", kSame, false, "--device cpu"},
    {"--num-cpu-threads-per-process", kSame, true, "--threads {0}"},
    {"--accelerator", kSame, true, "--device {0}", kDevices},
    {"--strategy", kHint, true, kStrategy},
    {"--cuda", kSame, false, "--device cuda"},
    // How it is trained, and for how long.
    {"--gamma", kSame, true, "--set gamma={0}"},
    {"--glr", kSame, true, "--set G.lr={0}"},
    {"--dlr", kSame, true, "--set D.lr={0}"},
    {"--batch-gpu", kSame, true, "--micro-batch {0}"},
    {"--cbase", kSame, true, "--set channel_base={0}"},
    {"--cmax", kSame, true, "--set channel_max={0}"},
    {"--map-depth", kSame, true, "--set map_depth={0}"},
    {"--mbstd-group", kSame, true, "--set mbstd_group={0}"},
    {"--tick", kSame, true, "--set train.tick={0}"},
    {"--allow-tf32", kSame, true, "--set precision.tf32={0}"},
    {"--fp32", kHint, true, "precision is said by one flag: --amp=off or --amp=fp16"},
    {"--nhwc", kNeedless, true, "the memory format is chosen by the device"},
    {"--nobench", kNeedless, true, "--deterministic fixes the kernels"},
    {"--g-batch-gpu", kHint, true, kBatchOfG},
    {"--d-batch-gpu", kHint, true, kBatchOfD},
    {"--auto-scale-lr", kSame, false, "--lr-scale linear"},
    {"--diff-seed", kNeedless, false, "every rank has draws of its own from one seed"},
    {"--mixed-precision,--precision", kSame, true, "--amp={0}", kPrecisions},
    {"--gradient-accumulation-steps,--accumulate-grad-batches", kSame, true, "--accumulate {0}"},
    {"--train-batch-size", kHint, true, kBatchOfADevice},
    {"--learning-rate,--lr", kHint, true, kTwoRates},
    {"--max-train-steps,--max-steps", kHint, true, kCountsSteps},
    {"--steps,--iterations,--num-train-steps", kHint, true, kCountsSteps},
    {"--num-train-epochs,--max-epochs,--epochs,--niter,--n-epochs", kHint, true, kCountsEpochs},
    {"--max-grad-norm,--gradient-clip-val", kSame, true, "--set optim.clip_norm={0}"},
    {"--batch-size,--batchSize", kSame, true, "--batch {0}"},
    {"--manual-seed,--manualSeed", kSame, true, "--seed {0}"},
    {"--fp16", kSame, false, "--amp=fp16"},
    {"--bf16", kSame, false, "--amp=bf16"},
    // What it leaves behind.
    {"--log-dir", kHint, true, kLogFiles},
    {"--outdir,--default-root-dir,--outf", kSame, true, "--out {0}"},
    {"--snap", kHint, true, kCountsTicks},
    {"--desc", kNeedless, true, "--run-dir and --out name the run's folder"},
    {"-n", kSame, false, "--dry-run"},
    {"--work-dir,--output-dir", kSame, true, "--run-dir {0}"},
    {"--resume-from,--ckpt-path", kSame, true, "--resume {0}"},
    {"--load-from,--pretrained,--weights", kSame, true, "--init-from {0}"},
    {"--no-validate", kSame, false, "--metrics none"},
    {"--checkpointing-steps", kHint, true, kSavesBySteps},
    {"--checkpoints-total-limit", kSame, true, "--keep-last {0}"},
    {"--resume-from-checkpoint", kSame, true, "--resume {0}", {{"latest", "auto"}}},
    {"--use-ema", kNeedless, false, "the averaged generator is always kept"},
    {"--report-to", kNeedless, true, "stats.jsonl and TensorBoard files are always written"},
    {"--fast-dev-run", kHint, false, "a short trial of everything is: gantrain --smoke"},
    {"--max-time", kSame, true, "--stop-after {0}"},
    {"--save-interval,--save-freq,--save-steps", kHint, true, kSavesInKimg},
    {"--deepspeed", kHint, true, "no such file is read; the run's flags are all"},
};

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

std::string respelled(const Respellings& words, const std::string& value) {
  const auto own = words.find(lower(value));
  return own == words.end() ? value : own->second;
}

// Throws UserError(kUsage) with the commands to type where --resume is given an official network
// pickle.
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

  Translation run() {
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

 private:
  bool is_known(const std::string& name) const {
    return std::ranges::find(known_, name) != known_.end();
  }

  // Takes the word after the flag, if that is one of these.
  bool join_switch(const std::string& name, const std::vector<std::string>& values) {
    if (at_ + 1 >= words_.size()) return false;
    const std::string value = words_[at_ + 1];
    if (std::ranges::find(values, lower(value)) == values.end()) return false;
    out_.arguments.push_back(name + "=" + lower(value));
    ++at_;
    return true;
  }

  // A flag of this program. A switch takes its value behind an equals sign alone, by CLI11.
  void take_own(const std::string& word, const std::string& name) {
    static const std::vector<std::string> yes_no = {
        "yes", "no", "on", "off", "true", "false", "1", "0"};
    // The flag itself says which of them there are.
    static const std::vector<std::string> kAmpWords = {
        "auto", "fp16", "bf16", "off", "no", "fp32", "float16", "bfloat16", "float32"};
    const bool apart =
        word == name && at_ + 1 < words_.size();  // the value follows, if there is one
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
      if (flag.is_switch && word == flag.names && flag.alone == nullptr &&
          join_switch(word, yes_no))
        return;
    }
    const auto theirs = kOfOwnFlags.find(name);
    const std::string own = theirs == kOfOwnFlags.end() ? value : respelled(theirs->second, value);
    if (own == value) {
      out_.arguments.push_back(word);
      return;
    }
    at_ += apart ? 1 : 0;
    out_.arguments.push_back(name + "=" + own);
    out_.lines.push_back(fmt::format("taken   {0} {1} for {0} {2}", name, value, own));
  }

  // Takes the flag if its value has another name here.
  bool take_metrics(const std::string& name, const std::string& value) {
    const std::string own = own_metrics(value);
    if (own == value) return false;
    out_.arguments.push_back(name + "=" + own);
    out_.lines.push_back(fmt::format(
        "taken   {0} {1} for {0} {2}; --set metrics.images=50000 takes as many pictures",
        name,
        value,
        own));
    return true;
  }

  void take(const Habit& habit, Given given) {
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

  const std::vector<std::string>& words_;
  const std::vector<std::string>& known_;
  size_t at_ = 0;
  Translation out_;
};

}  // namespace

const std::vector<Habit>& habits() { return kHabits; }

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

Translation translate_habits(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& known) {
  return Translator(arguments, known).run();
}

}  // namespace gantrain
