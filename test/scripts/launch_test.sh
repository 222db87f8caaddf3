#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dist_train.sh and slurm_train.sh: which command they run for which arguments and environment.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
unset NNODES NODE_RANK MASTER_ADDR PORT GPUS GPUS_PER_NODE CPUS_PER_TASK SRUN_ARGS
mkdir "$tmp/scripts"
cp "$root"/scripts/{launch,dist_train,slurm_train}.sh "$tmp/scripts/"
program "$tmp/build/gantrain" <<<'echo "$@"'
program "$tmp/bin/srun" <<<'echo srun "$@"'
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
expect "too few arguments" 2 "$(dist dcgan 2>/dev/null || echo $?)"
expect "gantrain's exit code" 5 "$(program build/gantrain <<<'exit 5'; dist dcgan 2 || echo $?)"

slurm() { "$tmp/scripts/slurm_train.sh" "$@"; }
expect "the defaults" \
  "srun -p gpu --job-name=j --ntasks=8 --cpus-per-task=5 --kill-on-bad-exit=1 --ntasks-per-node=8 --gres=gpu:8 $tmp/build/gantrain train --preset stylegan2 --run-dir work --amp" \
  "$(slurm gpu j stylegan2 work --amp)"
expect "the environment" \
  "srun -p gpu --job-name=j --ntasks=16 --cpus-per-task=2 --kill-on-bad-exit=1 --ntasks-per-node=4 --gres=gpu:4 --quotatype=spot -x n1 $tmp/build/gantrain train --config my.config --run-dir work --master-port 30000" \
  "$(GPUS=16 GPUS_PER_NODE=4 CPUS_PER_TASK=2 SRUN_ARGS='--quotatype=spot -x n1' PORT=30000 slurm gpu j my.config work)"
for flags in "--device cpu" "--device=cpu"; do
  # shellcheck disable=SC2086 # two words
  expect "no GPUs with $flags" \
    "srun -p p --job-name=j --ntasks=2 --cpus-per-task=1 --kill-on-bad-exit=1 --ntasks-per-node=2 $tmp/build/gantrain train --preset dcgan --run-dir work $flags" \
    "$(GPUS=2 GPUS_PER_NODE=2 CPUS_PER_TASK=1 slurm p j dcgan work $flags)"
done
expect "GPUS_PER_NODE=0" \
  "srun -p p --job-name=j --ntasks=2 --cpus-per-task=1 --kill-on-bad-exit=1 $tmp/build/gantrain train --preset dcgan --run-dir work" \
  "$(GPUS=2 GPUS_PER_NODE=0 CPUS_PER_TASK=1 slurm p j dcgan work)"

rm build/gantrain
program bin/gantrain <<<'echo found on PATH'
expect "no build here" "found on PATH" "$(dist dcgan 2)"
rm bin/gantrain
if ! command -v gantrain >/dev/null; then
  program scripts/build.sh <<<'echo "built $*"; mkdir -p build; cp fake build/gantrain'
  program fake <<<'echo "$@"'
  expect "nowhere: built" "train --preset dcgan --nproc 2" "$(dist dcgan 2 2>/dev/null)"
fi
