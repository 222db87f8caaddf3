#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [gantrain's flags]
# Trains in a batch job of Slurm that saves before its time is up, requeues itself and goes on
# (gantrain slurm --help). CONFIG is a preset or a JSON file, WORK_DIR the run's folder: the same call
# again resumes. The batch script is left there as job.sh, what the job says in slurm-JOBID.out. Waits
# for the end of the job, requeued or not, and ends with gantrain's exit code; Ctrl-C leaves the job
# running. Read from the environment, with their defaults:
#   GPUS=8 GPUS_PER_NODE=8 CPUS_PER_TASK=5    ranks in all, ranks and GPUs per node, CPUs per rank
#   TIME                                      time limit, as in 36h; else the partition's
#   REQUEUES=20                               how often the job may start again
#   TASK_PER=node                             what srun starts: a launcher per node, or (rank) each rank
#   SBATCH_ARGS, SRUN_ARGS                    more flags for sbatch and srun, separated by blanks
#   PORT                                      the master's port; else one made of job and step id
#   WAIT=1                                    0: return as soon as the job is submitted
# GPUS_PER_NODE=0 or --device cpu asks Slurm for no GPUs.
. "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
usage() { echo "$1" >&2; exit 2; }
[ $# -ge 4 ] || usage "usage: slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [gantrain's flags]"

partition=$1 job_name=$2 work_dir=$4
name_config "$3"
shift 4
gpus=${GPUS:-8} per_node=${GPUS_PER_NODE:-8}
[[ $gpus =~ ^[1-9][0-9]*$ ]] || usage "GPUS=$gpus: a number of ranks"
[[ $per_node =~ ^[0-9]+$ ]] || usage "GPUS_PER_NODE=$per_node: a number, or 0 for none"
ranks=$((per_node == 0 || per_node > gpus ? gpus : per_node)) # of a node
((gpus % ranks == 0)) || usage "GPUS=$gpus: no multiple of GPUS_PER_NODE=$per_node"

job=(--partition "$partition" --job-name "$job_name" --nodes $((gpus / ranks)) --nproc "$ranks"
  --cpus-per-rank "${CPUS_PER_TASK:-5}" --requeues "${REQUEUES:-20}" --task-per "${TASK_PER:-node}")
[ "$per_node" != 0 ] || job+=(--gpus-per-node 0)
[ -z "${TIME:-}" ] || job+=(--time "$TIME")
read -r -a srun_args <<<"${SRUN_ARGS:-}"
job+=("${srun_args[@]/#/--srun=}")
port=()
[ -z "${PORT:-}" ] || port=(--master-port "$PORT")
gantrain=$(find_gantrain)
mkdir -p "$work_dir"
"$gantrain" slurm "${job[@]}" -q -o "$work_dir/job.sh" -- \
  "${config[@]}" --run-dir "$work_dir" "${port[@]}" "$@" || exit

read -r -a sbatch_args <<<"${SBATCH_ARGS:-}"
[ "${WAIT:-1}" = 0 ] || sbatch_args+=(--wait)
exec sbatch --output "$work_dir/slurm-%j.out" "${sbatch_args[@]}" "$work_dir/job.sh"
