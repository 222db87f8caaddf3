#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slurm_train.sh on a real Slurm of one node: two ranks on the CPU through srun.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
[ "$(id -u)" = 0 ] || skip "not root, who could start Slurm's daemons"
PATH=$PATH:/usr/sbin
for program in srun slurmctld slurmd munged; do
  command -v "$program" >/dev/null || skip "$program is not installed (as root, scripts/test.sh installs it)"
done
export SLURM_TEST_DIR=$tmp/slurm SLURM_TEST_CPUS=4
SLURM_TEST_PORT=$((20000 + $$ % 10000))
export SLURM_TEST_PORT
mkdir "$SLURM_TEST_DIR"
chmod 755 "$tmp"
cluster=$root/test/scripts/slurm_onenode.sh
at_end() {
  "$cluster" down || true
  rm -rf "$tmp"
}
"$cluster" up 1
eval "$("$cluster" env)"

work=$tmp/work
GPUS=2 GPUS_PER_NODE=2 CPUS_PER_TASK=1 timeout 300 "$root/scripts/slurm_train.sh" debug smoke dcgan-tiny "$work" \
  --device cpu --threads 1 --kimg 0.5
expect "STATUS is written" yes "$([ -s "$work/STATUS" ] && echo yes)"
expect "a model is written" yes "$(compgen -G "$work/model-*.safetensors" >/dev/null && echo yes)"
expect "the step's tasks are the ranks of one run" 2 "$(grep -o '"ranks": *[0-9]*' "$work/env.json" | grep -o '[0-9]*$')"
for _ in {1..300}; do [ -n "$(squeue -h)" ] || break; sleep 0.2; done
expect "no job is left" "" "$(squeue -h)"
echo "two ranks through srun: $(cat "$work/STATUS")"
