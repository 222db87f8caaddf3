#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gantrain slurm: what its batch script does with each exit code, with stand-ins for Slurm's programs.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
gantrain=$(realpath "${1:-$root/build/gantrain}")
[ -x "$gantrain" ] || skip "no $gantrain: scripts/build.sh"
cd "$tmp"
unset SLURM_JOB_END_TIME SLURM_RESTART_COUNT SLURM_ARRAY_JOB_ID GANTRAIN_TORCH_LIB
export SLURM_JOB_ID=42 OUT=$tmp/calls
PATH=$tmp/bin:$PATH
program bin/srun <<'END'
echo "srun ${SLURM_JOB_END_TIME:-no end}" >>"$OUT"
printf '%s\n' "$@" >"$OUT.words"
echo "${GANTRAIN_JOB_SECRET:-none}" >>"$OUT.secrets"
echo "${GANTRAIN_TORCH_LIB:-none}" >"$OUT.torch"
run=${RUN:-runs/dcgan-tiny}
[ -z "${SAVES:-}" ] || { mkdir -p "$run" && touch "$run/state-$SAVES.pt"; }
[ -z "${TERM_THE_SCRIPT:-}" ] || kill -TERM "$PPID"
exit "${CODE:-0}"
END
program bin/scontrol <<<'echo "scontrol $*" >>"$OUT"; exit "${REQUEUE_CODE:-0}"'
program bin/squeue <<<'echo "${END_TIME:-N/A}"'

# job NAME=VALUE...: runs the script, prints its exit code and then what it called.
job() {
  local code=0
  rm -f "$OUT"
  env "$@" bash job.sh 2>stderr || code=$?
  echo "$code: $(paste -sd, "$OUT")"
}

"$gantrain" slurm --partition p --nodes 2 --nproc 4 --requeues 3 --device cpu --preset dcgan-tiny -o job.sh 2>notes
expect "what can be run next" "next    sbatch job.sh" "$(tail -1 notes)"
expect "the file can be executed" yes "$([ -x job.sh ] && echo yes)"
! command -v shellcheck >/dev/null || shellcheck job.sh
expect "a run that is done" "0: srun no end" "$(job)"
expect "a stop is requeued" "75: srun no end,scontrol requeue 42" "$(job CODE=75)"
expect "the last restart" "75: srun no end,scontrol requeue 42" "$(job CODE=75 SLURM_RESTART_COUNT=2)"
expect "the bound" "75: srun no end" "$(job CODE=75 SLURM_RESTART_COUNT=3)"
expect "each job has a secret" "4 of 4" \
  "$(sort -u "$OUT.secrets" | grep -c '^[0-9a-f]\{64\}$') of $(wc -l <"$OUT.secrets")"
for code in 1 2 3 4 5 6 7 8 130 137; do
  expect "the code $code is the job's" "$code: srun no end" "$(job CODE=$code)"
done
expect "a rank died after a save" "6: srun no end,scontrol requeue 42" "$(job CODE=6 SAVES=000010)"
expect "why it is requeued" "job 42 has lost a rank after it had saved: requeued, restart 1 of 3" "$(tail -1 stderr)"
expect "a rank died again without a newer save" "6: srun no end" "$(job CODE=6 SLURM_RESTART_COUNT=1)"
expect "and after one" "6: srun no end,scontrol requeue 42" "$(job CODE=6 SAVES=000020.500 SLURM_RESTART_COUNT=1)"
expect "its bound" "6: srun no end" "$(job CODE=6 SAVES=000030 SLURM_RESTART_COUNT=3)"
expect "a run that diverged after a save" "5: srun no end" "$(job CODE=5 SAVES=000040)"
rm -r runs
expect "a job that is told to end" "75: srun no end" "$(job CODE=75 TERM_THE_SCRIPT=1)"
expect "a job that cannot be requeued" "75: srun no end,scontrol requeue 42" "$(job CODE=75 REQUEUE_CODE=1)"
expect "what helps then" "scontrol requeue failed; sbatch the same script to go on" "$(tail -1 stderr)"
expect "a task of an array" "75: srun no end,scontrol requeue 40_2" \
  "$(job CODE=75 SLURM_ARRAY_JOB_ID=40 SLURM_ARRAY_TASK_ID=2)"
expect "the end that an old Slurm knows" "0: srun 1800000000" \
  "$(job TZ=UTC END_TIME=2027-01-15T08:00:00)"
expect "the end that Slurm tells" "0: srun 1700000000" "$(job SLURM_JOB_END_TIME=1700000000)"

words() { tr '\n' ' ' <"$OUT.words"; }
job >/dev/null
expect "the step" "--ntasks=2 --ntasks-per-node=1 --cpus-per-task=20 --kill-on-bad-exit=0 --wait=120 $(realpath "$gantrain") train --device cpu --preset dcgan-tiny --run-dir runs/dcgan-tiny --nproc 4 --resume auto " "$(words)"

data="it's \"my\" \$HOME; \`date\` * \\"
"$gantrain" slurm --task-per rank --nproc 2 --srun=--mpi=none --resume "an old run" -o job.sh -- \
  --device cpu --preset dcgan-tiny --data "$data" --run-dir "a run" 2>/dev/null
! command -v shellcheck >/dev/null || shellcheck job.sh
job >/dev/null
expect "any word arrives as it is" "$data" "$(grep -A1 -x -- --data "$OUT.words" | tail -1)"
expect "a task per rank" "--ntasks=2 --ntasks-per-node=2 --cpus-per-task=5 --kill-on-bad-exit=0 --wait=120 --mpi=none" \
  "$(words | grep -o '.*--mpi=none')"
expect "another run is resumed first" "an old run" "$(tail -1 "$OUT.words")"
mkdir "a run"
touch "a run/state-000001.pt"
job >/dev/null
expect "then this one" auto "$(tail -1 "$OUT.words")"

expect "PyTorch's libraries are not named" none "$(cat "$OUT.torch")"
GANTRAIN_TORCH_LIB="a venv/torch/lib" "$gantrain" slurm -o job.sh -- --device cpu --preset dcgan-tiny 2>/dev/null
job >/dev/null
expect "the job has those that the program had" "$PWD/a venv/torch/lib" "$(cat "$OUT.torch")"
! command -v shellcheck >/dev/null || shellcheck job.sh

pattern="it*s [1] {a,b} why? \\"  # a folder's name, and no pattern
"$gantrain" slurm --requeues 3 --resume "an old run" -o job.sh -- --device cpu --preset dcgan-tiny --run-dir "$pattern" 2>/dev/null
expect "a rank died after a save there" "6: srun no end,scontrol requeue 42" "$(job CODE=6 SAVES=000010 RUN="$pattern")"
job >/dev/null
expect "that state is seen" auto "$(tail -1 "$OUT.words")"

# refused CODE WORD FLAG...: the exit code, and a word of the message
refused() {
  local code=0
  "$gantrain" slurm "${@:3}" >out 2>err || code=$?
  expect "${*:3}" "$1 0" "$code $(stat -c %s out)"
  expect "${*:3} names $2" "" "$(grep -q -- "$2" err || cat err)"
}
refused 2 --presett --presett dcgan
refused 2 --partition --partiton gpu
refused 2 --presett -- --presett dcgan
refused 2 dcgann -- --preset dcgann
refused 2 --batch --nproc 3 -- --batch 16
refused 2 --nnodes --nodes 2 -- --nnodes 2
refused 2 --resume -- --resume none
refused 2 --dry-run -- --dry-run
refused 2 --stopped-code -- --stopped-code 143
refused 2 --nproc --nproc 2 -- --nproc 4
refused 2 --gpus-per-node --nproc 8 --gpus-per-node 4
refused 2 --time --time soon
refused 2 --nodes --nodes 0
refused 2 --job-name --job-name "my job"
refused 8 no-such-folder -o no-such-folder/job.sh
