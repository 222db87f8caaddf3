#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dist_train.sh and slurm_train.sh: which command they run for which arguments and environment.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
unset NNODES NODE_RANK MASTER_ADDR PORT GPUS GPUS_PER_NODE CPUS_PER_TASK SRUN_ARGS SBATCH_ARGS TIME REQUEUES TASK_PER WAIT
mkdir "$tmp/scripts"
cp "$root"/scripts/{launch,dist_train,slurm_train}.sh "$tmp/scripts/"
program "$tmp/build/gantrain" <<<'echo "$@"'
echo '{}' >"$tmp/my.config"
PATH=$tmp/bin:$PATH
cd "$tmp"

dist() { "$tmp/scripts/dist_train.sh" "$@"; }
expect "a preset" "train --preset dcgan --nproc 8 --amp --kimg 5" "$(dist dcgan 8 --amp --kimg 5)"
expect "a JSON file that exists" "train --config my.config --nproc 2" "$(dist my.config 2)"
expect "a JSON file that gantrain will miss" "train --config no.json --nproc 2" "$(dist no.json 2)"
expect "a port" "train --preset dcgan --nproc 2 --master-port 30000" "$(PORT=30000 dist dcgan 2)"
expect "nodes" \
  "train --preset dcgan --nproc 2 --nnodes 2 --node-rank 1 --master-addr h0 --master-port 29500" \
  "$(NNODES=2 NODE_RANK=1 MASTER_ADDR=h0 dist dcgan 2)"
expect "with CDPATH, by which cd prints" "train --preset dcgan --nproc 2" "$(CDPATH=. scripts/dist_train.sh dcgan 2)"
expect "too few arguments" 2 "$(dist dcgan 2>/dev/null || echo $?)"
expect "gantrain's exit code" 5 "$(program build/gantrain <<<'exit 5'; dist dcgan 2 || echo $?)"

program "$tmp/build/gantrain" <<<'echo "$@"'
program "$tmp/bin/sbatch" <<<'echo sbatch "$@"'
slurm() { "$tmp/scripts/slurm_train.sh" "$@"; }
expect "the defaults" \
  "slurm --partition gpu --job-name j --nodes 1 --nproc 8 --cpus-per-rank 5 --requeues 20 --task-per node -q -o work/job.sh -- --preset stylegan2 --run-dir work --amp
sbatch --output work/slurm-%j.out --wait work/job.sh" \
  "$(slurm gpu j stylegan2 work --amp)"
expect "the environment" \
  "slurm --partition gpu --job-name j --nodes 4 --nproc 4 --cpus-per-rank 2 --requeues 3 --task-per rank --time 36h --srun=--quotatype=spot --srun=-x --srun=n1 -q -o work/job.sh -- --config my.config --run-dir work --master-port 30000
sbatch --output work/slurm-%j.out --exclusive work/job.sh" \
  "$(GPUS=16 GPUS_PER_NODE=4 CPUS_PER_TASK=2 SRUN_ARGS='--quotatype=spot -x n1' PORT=30000 TIME=36h REQUEUES=3 \
    TASK_PER=rank WAIT=0 SBATCH_ARGS=--exclusive slurm gpu j my.config work)"
expect "fewer ranks than a node has GPUs" "--nodes 1 --nproc 2" \
  "$(GPUS=2 slurm p j dcgan work | grep -o -- '--nodes.*--nproc [0-9]*')"
expect "GPUS_PER_NODE=0" "--nodes 1 --nproc 2 --cpus-per-rank 5 --requeues 20 --task-per node --gpus-per-node 0" \
  "$(GPUS=2 GPUS_PER_NODE=0 slurm p j dcgan work | grep -o -- '--nodes.*--gpus-per-node 0')"
expect "ranks that fill no node" 2 "$(GPUS=12 slurm p j dcgan work 2>/dev/null || echo $?)"
expect "GPUS that is no number" 2 "$(GPUS=all slurm p j dcgan work 2>/dev/null || echo $?)"
program "$tmp/build/gantrain" <<<'exit 2'
expect "nothing is submitted that gantrain refuses" 2 "$(slurm p j dcgan work || echo $?)"

rm build/gantrain
program bin/gantrain <<<'echo found on PATH'
expect "no build here" "found on PATH" "$(dist dcgan 2)"
rm bin/gantrain
if ! command -v gantrain >/dev/null; then
  program scripts/build.sh <<<'echo "built $*"; mkdir -p build; cp fake build/gantrain'
  program fake <<<'echo "$@"'
  expect "nowhere: built" "train --preset dcgan --nproc 2" "$(dist dcgan 2 2>/dev/null)"
fi
