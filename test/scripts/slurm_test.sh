#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slurm_train.sh on a real Slurm of one node: two ranks on the CPU in a batch job.
. "$(dirname "${BASH_SOURCE[0]}")/slurm_cluster.sh"
cluster_up 1

work="$tmp/my work"
GPUS=2 GPUS_PER_NODE=2 CPUS_PER_TASK=1 timeout 300 "$root/scripts/slurm_train.sh" debug smoke dcgan-tiny "$work" \
  --device cpu --threads 1 --kimg 0.5
expect "STATUS is written" yes "$([ -s "$work/STATUS" ] && echo yes)"
expect "a model is written" yes "$(compgen -G "$work/model-*.safetensors" >/dev/null && echo yes)"
expect "the ranks of one run" 2 "$(grep -o '"ranks": *[0-9]*' "$work/env.json" | grep -o '[0-9]*$')"
expect "what the job says is in its file" yes "$(grep -q '^done' "$work"/slurm-*.out && echo yes)"
expect "no job is left" "" "$(squeue -h -t PENDING,RUNNING)"

code=0
GPUS=2 CPUS_PER_TASK=1 timeout 300 "$root/scripts/slurm_train.sh" debug smoke dcgan-tiny "$work" \
  --device cpu --threads 1 --kimg 0.6 --batch 12 >/dev/null || code=$?
expect "gantrain's exit code is the job's" 2 "$code"

# One verdict, whoever started the ranks.
for rank in 0 1; do
  beside expect_named "$tmp/killed$rank" KILL "$rank" srun -n2 "$root/build/gantrain"
  beside expect_named "$tmp/stopped$rank" STOP "$rank" srun -n2 "$root/build/gantrain"
done
all_named
no_job_left 60

code=0
sbatch --wait -n2 --output="$tmp/alone.out" --wrap "'$root/build/gantrain' --preset dcgan-tiny --device cpu --run-dir '$tmp/alone'" >/dev/null || code=$?
expect "several tasks without srun are refused" 4 "$code"
expect "with the way out" 1 "$(grep -c 'srun [^ ]*gantrain' "$tmp/alone.out")"
echo "two ranks in a batch job: $(cat "$work/STATUS")"
