// SPDX-License-Identifier: Apache-2.0
#include "main/help.h"

namespace gantrain {

namespace {

// Facts that the program has in tables stand here as "@...", see HelpTopic.

constexpr const char* kAmpHelp =
    R"(Mixed precision: convolutions and matrix products in half precision, weights in float32.

--amp                        with any preset: fp16 on GPUs; on a CPU bf16 for those convolutions and
                             products that it makes faster there, measured once as the run begins
--amp=fp16, --amp=bf16       one of them, for all; fp16 on a CPU rounds operands and results to fp16, and
                             a run is warned where bf16 on its CPU is slower than float32
--amp=off                    float32 (the default; on a GPU not of StyleGAN2, StyleGAN3, R3GAN: precision.mode)
--loss-scale dynamic|512     with fp16: of each network by itself; auto is dynamic
--set precision.KEY=VALUE    initial_scale, growth_factor, backoff_factor, growth_interval: the rule of
                             PyTorch's GradScaler; min_scale: below it the run ends with 5
--set precision.keep_float32=G,D.b8
                             networks or blocks that stay in float32; --dry-run=full lists the blocks
--set precision.mode=blocks  the way of StyleGAN2 and StyleGAN3: fp16 in the RECIPE.num_fp16_res top
                             resolutions, activations within +-RECIPE.conv_clamp, no loss scale unless one
                             is given; R3GAN computes its r3gan.num_fp16_res top resolutions in bf16. On a
                             GPU their presets do so without a flag and with --amp, as the authors' code
                             does (the tiny ones only with --amp); not with --amp=off, fp16 or bf16
--set precision.cpu_choice=V what --amp chose on a CPU: float32, bfloat16 (all, by autocast) or the list
                             in a run's config.json, for another run with the same types
--set precision.tf32=on      TensorFloat-32 for what is float32 on a GPU
--set optim.clip_norm=X      and optim.clip_value: after unscaling
--set train.on_nonfinite=stop
                             end at the first gradient that is not finite instead of leaving the step
                             out; train.nonfinite_limit steps left out in a row always end the run

In float32 whatever is asked for: statistics of batch, instance and pixel norm, minibatch standard
deviation and the last block of D, latents, styles and demodulation, R1, gradient and path length
penalties (with precision.mode=blocks as in the reference), losses, gradients of weights, optimizers
and the average. stats.jsonl has AMP/<player>/scale and AMP/<player>/skipped (steps left out in the
tick); such a step's images are counted once, as any other's, and a resume goes on with the same scale.

elsewhere                                     here
apex O0                                       --amp=off
apex O1                                       --amp=fp16
apex O2 (almost all fp16, float32 weights)    --amp=fp16: weights are always float32
apex O3 (fp16 weights as well)                nothing: it does not train GANs
amp.scale_loss(loss, optimizer, loss_id=i)    done for each network; its scale is its own
GradScaler(init_scale=512)                    --set precision.initial_scale=512
fp16_loss_scaler=dict(init_scale=512)         --amp=fp16 --set precision.initial_scale=512
AmpOptimWrapper(loss_scale='dynamic')         --amp=fp16
AmpOptimWrapper(loss_scale=512)               --amp=fp16 --loss-scale 512
AmpOptimWrapper(dtype='bfloat16')             --amp=bf16
loss_scale=dict(init_scale=A, growth_factor=B, backoff_factor=C, growth_interval=D)
                                              --set precision.initial_scale=A, and so on
accumulative_counts=8                         --accumulate 8 with eight times the --batch;
                                              of one network: --set D.accumulate=8
clip_grad=dict(max_norm=X)                    --set optim.clip_norm=X
clip_grad=dict(type='value', clip_value=X)    --set optim.clip_value=X
num_fp16_scales, num_fp16_res (StyleGAN2, 3)  --amp=fp16 --set precision.mode=blocks
                                              --set stylegan2.num_fp16_res=4
)";

constexpr const char* kStartHelp = R"(
The first run, on built-in pictures; then on your own, on every GPU of this machine, or else on its
CPU. A run with --run-dir goes on when the same command is given again.

  gantrain --preset dcgan-tiny
  gantrain --preset stylegan2-ada --data ~/photos --resolution 256 --run-dir runs/photos
  gantrain generate --model runs/photos --seeds 0-63 -o grid.png

@train --preset --data --resolution --kimg --batch --seed --set --config --dry-run --smoke --quiet

One unit counts everything: kimg, thousands of real images shown to the discriminator. --dry-run
shows each value with its origin and the schedule at once; --dry-run=full measures a few iterations
and foretells memory, disk and time.

Presets (gantrain presets show NAME is a file for --config; "base": "NAME" in a file extends one):
@presets

A flag wins over the environment, that over --config, that over the preset. Learning rates, betas,
penalty weights, the average's half-life and the augmentation may follow the images seen: a number,
or {"from": a, "to": b, "kimg": k, "shape": "linear"|"cosine"|"step"}. Networks that grow have
schedule.start, schedule.fade_kimg, schedule.stable_kimg and a table schedule.batch by resolution.

Flags of torchrun, StyleGAN's train.py, MMagic, accelerate and Lightning are understood where they
mean the same (taken   --gpus 8 for --nproc 8), and refused with the spelling to type where not.

A run leaves: config.json (each value with its origin), command.txt, env.json, log.txt,
stats.jsonl, metric-NAME.jsonl, TensorBoard events, samples/*.png, model-*.safetensors (share
these), state-*.pt (resume from these), report.html (open it from the first minute on), STATUS, and
after a failure errors/rank<k>.json. Numbers in names are kimg. runs/latest leads to the newest
run.

Environment:
@environment
)";

constexpr const char* kDataHelp = R"(
Pictures: PNG (1 to 16 bit), JPEG (EXIF, CMYK) and WebP of any size in a folder, zip, tar (also
.gz, .zst, .xz, .bz2; webdataset; shards as a folder, 's-{000..010}.tar' or 's-*.tar') or LMDB;
CIFAR-10/100 and MNIST as downloaded; synth:shapes is built in. They are brought to one size while
loading; nothing need be converted before.

@train --data --resolution --fit --filter --mirror --cond data.labels data.channels data.on_bad data.verify data.workers data.cache_mb data.scaled_jpeg

Labels: data.labels, else CIFAR's or MNIST's own, dataset.json, labels.csv, dataset.csv or
metadata.csv in the data or beside the archive, .cls or .json files beside pictures, else
sub-folders. Names of classes come along: generate --class circle.

Rectangles: --resolution 256x128 (WIDTHxHEIGHT) in StyleGAN2 and the DCGAN presets, where the
sides, halved together, end with 4 to 7 pixels on the shorter one; others are refused with the
nearest ones that work.

Looking and packing:
  gantrain data inspect ~/photos --sheet sheet.png
  gantrain data pack ~/photos -o photos.zip --resolution 256

@data-inspect --labels --sheet --bad --all
@data-pack --output --resolution --fit --filter --channels --labels --max-images --png-level --on-bad --force

A picture that cannot be read is refused with its name before training starts; data.on_bad=skip
leaves it out and names it. At most 256 MB a file and 400 MB decoded. Packing that was stopped goes
on with the same command, to the same bytes. A run keeps data-manifest.jsonl: a resume on pictures
that were added, removed, altered or relabelled is refused with their names; --force data takes
them.
)";

constexpr const char* kDdpHelp = R"(
One process per device. Without flags: every visible GPU of this machine, else one rank on the CPU.
The batch is that of all ranks together: global = ranks x micro-batch x accumulate, which the line
"batch" of a run spells out; --nproc 8 and --nproc 1 train the same model.

@train --nproc --batch --micro-batch --accumulate --lr-scale --device --backend --threads

Several nodes, the same command on each, with its own --node-rank (ports between the nodes must be
open, as gloo and NCCL need), or as workers of torchrun:
  gantrain --nnodes 2 --node-rank 0 --master-addr node0 --master-port 29500 --nproc 8 --preset ...
  torchrun --nproc_per_node 8 --no-python gantrain --preset ...

@train --nnodes --node-rank --master-addr --master-port --max-restarts --timeout --hang-timeout --grace

A launcher that is killed, stopped or cut off ends the run everywhere within 10 s with 6; every
node prints the same first cause, and a stop at one stops all. --max-restarts starts all ranks
again from the newest state after 1, 2, 4 ... 60 s; the same failure twice in a row at the same
iteration is not tried a third time.

Gradients: dynamic has one reducer a network, armed by the loss; wrapper arms it by each forward,
as DistributedDataParallel does; flat is one all-reduce. gantrain doctor --ddp-table shows what
every way of wrapping a GAN in DistributedDataParallel does. Ranks are compared bit by bit every
few ticks.

@train --ddp-mode --ddp-scope --find-unused dist.compress dist.sync_bn dist.static_graph dist.broadcast_buffers dist.bucket_mb dist.first_bucket_mb dist.check_every --graphs

What it costs: gantrain bench ddp measures each way here; gantrain bench ddp --simulate 1024
--bandwidth 400Gb/s --latency 10 foretells step time, exposed communication and bucket size for 8
to 1024 ranks. stats.jsonl counts each phase's bytes, collectives and buckets.

GPUs: a driver of 580.65 or newer (CUDA 13.0) is needed. Where GPUs are visible gantrain never
falls back to the CPU by itself: what is missing ends it with 4 and the way out. gantrain doctor
shows what is there; --dry-run --device cuda --nproc 8 plans a GPU job on a machine without one.
)";

constexpr const char* kSlurmHelp = R"(
gantrain slurm writes a batch script that saves before its time is up, requeues itself (exit 75)
and goes on in the same run folder; scancel and preemption save too. What stands behind -- are
flags of the training:

  gantrain slurm --partition gpu --nodes 2 --gpus-per-node 8 --time 24h -o job.sh -- \
    --preset stylegan2 --data /data/photos --run-dir /scratch/photos
  sbatch job.sh

@slurm --partition --account --qos --nodes --nproc --gpus-per-node --cpus-per-rank --mem --time --requeues --task-per --sbatch --srun --job-name --output
@train --time-margin --stop-after --run-dir --stopped-code

Inside a step of srun or under mpirun gantrain is a worker by itself, with one task per GPU or one
per node: srun gantrain --preset ... needs no flag that says so. scripts/slurm_train.sh PARTITION
JOB CONFIG WORK_DIR [flags] submits one and waits; scripts/dist_train.sh CONFIG GPUS [flags] is
local.

Kubernetes: a pod with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and no LOCAL_RANK is node RANK of
WORLD_SIZE and starts --nproc ranks; PET_* are read as torchrun's. Put --run-dir on a volume and
terminationGracePeriodSeconds above --grace (30s). Job: a podFailurePolicy with FailJob on 1-5 and
8 and Ignore on 75. PyTorchJob with restartPolicy ExitCode restarts from 128 on: give
--stopped-code 143, and --max-restarts for 6; OnFailure restarts all.
)";

constexpr const char* kResumeHelp = R"(
The same command with the same --run-dir goes on; on a CPU with the bits that it would have had
without the stop. --out makes a new numbered folder instead.

@train --run-dir --out --resume --force --init-from --stop-after --time-margin --grace

Ctrl-C, SIGTERM, SIGUSR1, --stop-after and a file STOP in the run folder: all ranks save at the
same iteration and end with 75 (Ctrl-C: 130). A file SAVE there saves and goes on.

@train --save-every --keep-last --keep-every --keep-models --keep-best --save-raw

state-*.pt holds everything (Python's torch.load opens it); it is checked in full before use, by
checksum, record, tensor and counter, and what does not hold is named and the one before it used.
model-*.safetensors holds the generator's average, which is what you share and draw from; with
--save-raw also the raw networks. Files are written beside the training, which waits only for a
copy into memory: gantrain bench save shows both. Rows of stats.jsonl behind a resumed state move
to superseded-stats.jsonl. Kimg, ranks, nodes, devices, micro-batches, cadences and paths may
differ from the state's; for other keys --force names them.

Weights in and out:
  gantrain --init-from runs/faces --preset stylegan2 --data DIR    a fresh run, from a run's weights
  gantrain import network.pkl -o model.safetensors                 official pickles, not executed
  gantrain export runs/faces --to python -o DIR                    plain PyTorch, ONNX, a model card
  gantrain inspect FILE                                            what is in a file
  gantrain inspect --diff A B                                      what differs between two

A run folder or a state gives --init-from all networks; a model without raw ones begins with a
fresh discriminator, and the log says so.
)";

constexpr const char* kMetricsHelp = R"(
In a run all ranks measure together, by default swd and msssim, which need no weights:
@metrics

@train --metrics --metrics-every --detector --keep-best --stop-on metrics.images metrics.at_start metrics.at_end metrics.collapse_below metrics.collapse_times

StyleGAN's names work: fid50k_full is fid. A run is always warned of collapse; --stop-on collapse
ends it with 5 after it has saved.

Afterwards:
  gantrain metrics runs/latest
  gantrain metrics runs/latest --metrics fid,kid,pr --detector inception-2015-12-05.pt --nproc 2
  gantrain metrics --images REAL FAKE --metrics swd,msssim
  gantrain metrics --features REAL.npy FAKE.npy

@metrics --data --num-images --num-reals --nproc --mirror --per-class --all-models --probs --json

A detector is any TorchScript file whose forward(pictures) gets float32 [N, 3, H, W] in 0..255 and
returns features [N, F]; StyleGAN2-ADA's inception-2015-12-05.pt and vgg16.pt have this form
(return_features, return_lpips and no_output_bias are used where forward() has them). Defaults are
the published ones: 50,000 fakes against all reals, covariances divided by N, no flips. Statistics
of the reals are kept in ~/.cache/gantrain/metrics by content. Each line of metric-NAME.jsonl has a
"recipe" (detector and its sha256, numbers of pictures, filter, seed); only equal ones are
compared.
)";

constexpr const char* kExitHelp = R"(
@exit

The code of a world is that of the rank that failed first if it is 2 to 8, else 6. Try 4, 6 and 7
again elsewhere or smaller; 75 with the same command; the others need a change first.
@train --stopped-code --max-restarts

Why a run ended stands in its folder, also where standard error is lost or the launcher was killed
by SIGKILL: STATUS in one line, the end of log.txt (other nodes: log-rank<k>.txt), and
errors/rank<k>.json in the shape of torchelastic's error files: message.message, and in
message.extraInfo time, host, pid, phase, iteration, exit code or signal, last state and the
command that resumes; a crash's stack is py_callstack. errors/pids.json maps ranks to pids while it
runs. A later session moves them to errors/earlier-<n>/. TORCHELASTIC_ERROR_FILE is written too.
)";

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

}  // namespace gantrain
