#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the tests on a throw-away Slurm share; sourced. Sets `cluster` and `tmp`; skips the test where
# no Slurm can be started.
. "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
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

cluster_up() { # cluster_up NODES
  "$cluster" up "$1"
  eval "$("$cluster" env)"
}

# no_job_left SECONDS: false if the queue is not empty by then.
no_job_left() {
  local i
  for ((i = 0; i < 5 * $1; i++)); do
    [ -n "$(squeue -h)" ] || return 0
    sleep 0.2
  done
  squeue >&2
  return 1
}
