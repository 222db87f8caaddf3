// SPDX-License-Identifier: Apache-2.0
#include "habits.h"

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
      {"--aug", whose, kSame, true, "--set ada.mode={0}", kAugmentations},
      {"--augpipe", whose, kSame, true, "--set ada.pipe={0}"},
      {"--p", whose, kSame, true, "--set ada.p={0}"},
      {"--target", whose, kSame, true, "--set ada.target={0}"},
      {"--gamma", whose, kSame, true, "--set gamma={0}"},
      {"--freezed", whose, kSame, true, "--set freeze_d={0}"},
      {"--glr", whose, kSame, true, "--set G.lr={0}"},
      {"--dlr", whose, kSame, true, "--set D.lr={0}"},
      {"--batch-gpu", whose, kSame, true, "--micro-batch {0}"},
      {"--cbase", whose, kSame, true, "--set channel_base={0}"},
      {"--cmax", whose, kSame, true, "--set channel_max={0}"},
      {"--map-depth", whose, kSame, true, "--set map_depth={0}"},
      {"--mbstd-group", whose, kSame, true, "--set mbstd_group={0}"},
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
      {"--desc", whose, kNeedless, true, "--run-dir and --out name the run's folder"},
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
      {"--epochs,--niter,--n-epochs", whose, kHint, true, kCountsEpochs},
      {"--steps,--iterations,--num-train-steps", whose, kHint, true, kCountsSteps},
      {"--dataroot,--dataset,--data-dir,--data-path", whose, kSame, true, "--data {0}"},
      {"--image-size,--imageSize,--img-size", whose, kSame, true, "--resolution {0}"},
      {"--num-workers", whose, kSame, true, "--set data.workers={0}"},
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

const std::map<std::string, std::vector<Respelling>>& respellings_of_own_flags() {
  static const std::map<std::string, std::vector<Respelling>> table = {
      {"--cond", kOnOff}, {"--device", kDevices}, {"--preset", kR3ganPresets}};
  return table;
}

}  // namespace gantrain
