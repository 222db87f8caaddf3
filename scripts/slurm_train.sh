#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [gantrain's flags]
# Trains through srun, one task per rank. CONFIG is a preset or a JSON file, WORK_DIR the run's folder
# (the same call again resumes). Read from the environment, with their defaults:
#   GPUS=8 GPUS_PER_NODE=8 CPUS_PER_TASK=5    ranks in all, ranks and GPUs per node, CPUs per rank
#   SRUN_ARGS                                 more flags for srun, separated by blanks
#   PORT                                      the master's port; else one made of job and step id
# GPUS_PER_NODE=0 or --device cpu asks Slurm for no GPUs.
. "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
[ $# -ge 4 ] || { echo "usage: slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [gantrain's flags]" >&2; exit 2; }

partition=$1 job_name=$2 work_dir=$4
name_config "$3"
shift 4
gpus=${GPUS:-8} per_node=${GPUS_PER_NODE:-8}
step=(-p "$partition" --job-name="$job_name" --ntasks="$gpus" --cpus-per-task="${CPUS_PER_TASK:-5}"
  --kill-on-bad-exit=1)
if [ "$per_node" != 0 ]; then
  step+=(--ntasks-per-node="$per_node")
  [[ " $* " =~ \ --device[=\ ]cpu\  ]] || step+=(--gres="gpu:$per_node")
fi
read -r -a srun_args <<<"${SRUN_ARGS:-}"
port=()
[ -z "${PORT:-}" ] || port=(--master-port "$PORT")
gantrain=$(find_gantrain)
exec srun "${step[@]}" "${srun_args[@]}" "$gantrain" train "${config[@]}" --run-dir "$work_dir" "${port[@]}" "$@"
