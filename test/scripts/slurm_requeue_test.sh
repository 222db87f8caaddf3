#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs of `gantrain slurm` on a real Slurm: preempted and requeued they end with the weights of a run
# that nothing disturbed, with a task per node and with a task per rank; a cancelled job saves and
# stays away; a job whose launcher is killed on one node ends on both. And users' programs under srun.
. "$(dirname "${BASH_SOURCE[0]}")/slurm_cluster.sh"
gantrain=$(realpath "${1:-$root/build/gantrain}")
[ -x "$gantrain" ] || skip "no $gantrain: scripts/build.sh"
cluster_up 2
cd "$tmp"

# submit NAME KIMG FLAG...: the job NAME, in a run folder of this name; prints its number.
submit() {
  "$gantrain" slurm --job-name "$1" --cpus-per-rank 1 --requeues 2 "${@:3}" -o "$1.sh" -- "${TINY[@]}" --kimg "$2" \
    --save-every 1 --run-dir "$1" 2>/dev/null
  sbatch --parsable --output="$1.out" "$1.sh"
}
has() { compgen -G "$1/state-*.pt"; }
state_of() { scontrol show job "$1" | grep -o 'JobState=[A-Z]*'; }
exit_code_of() { scontrol show job "$1" | sed -n 's/.*ExitCode=\([0-9]*\):.*/\1/p'; }
# processes RUN: how many processes have the run folder on their command line.
processes() { pgrep -c -f -- "--run-dir $1 " || true; }
# launcher_of_second_node PID: Slurm started this process, as the task of the second node.
launcher_of_second_node() {
  tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | grep -qx SLURM_NODEID=1 || return
  [ "$(cat "/proc/$(awk '$1 == "PPid:" { print $2 }' "/proc/$1/status")/comm")" = slurmstepd ]
}

node=$(submit node 4 --nproc 2)
rank=$(submit rank 4 --nproc 2 --task-per rank)
wait_for 60 has node
wait_for 60 has rank
scancel --signal=USR1 "$node" "$rank"
wait_for 60 grep -q "restart 1 of 2" node.out
wait_for 60 grep -q "restart 1 of 2" rank.out
expect "both have saved because of the signal" "1 1" "$(for run in node rank; do grep -c '^stopped.*(signal 10), saved' $run.out; done | paste -sd' ')"
tiny "$gantrain" undisturbed --kimg 4 --save-every 1 --nproc 2 2>/dev/null
wait_for 90 grep -q "^done" node/STATUS
wait_for 90 grep -q "^done" rank/STATUS
no_job_left 60
expect_same_run undisturbed node
expect_same_run undisturbed rank
expect "restarts" "1 1" "$(for job in "$node" "$rank"; do scontrol show job "$job" | grep -o 'Restarts=[0-9]*'; done | cut -d= -f2 | paste -sd' ')"

cancelled=$(submit cancelled 4000 --nproc 2)
wait_for 60 has cancelled
scancel "$cancelled"
no_job_left 60
expect "a cancelled job saves" stopped "$(cut -d' ' -f1 cancelled/STATUS)"
expect "a cancelled job is not requeued" JobState=CANCELLED "$(state_of "$cancelled")"

killed=$(submit killed 4000 --nodes 2 --nproc 2)
wait_for 60 has killed
second=$(for pid in $(pgrep -f -- '--run-dir killed '); do
  ! launcher_of_second_node "$pid" || echo "$pid"
done)
expect "one launcher of the second node" 1 "$(wc -w <<<"$second")"
kill -9 "$second"
no_job_left 60
expect "a killed launcher ends the job on both nodes" 0 "$(processes killed)"
expect "and is its exit code" 137 "$(exit_code_of "$killed")"
expect "no other restart" Restarts=0 "$(scontrol show job "$killed" | grep -o 'Restarts=[0-9]*')"
# Programs of the user's under srun: a launcher on each node, and a task for each rank, which becomes the program.
per_node() { timeout 120 srun --nodes 2 --ntasks 2 --ntasks-per-node 1 --cpus-per-task 2 --kill-on-bad-exit=0 "$gantrain" launch -q --nproc 2 -- "$@"; }
expect "ranks of two launchers" "0 0 of 4,1 1 of 4,2 0 of 4,3 1 of 4" \
  "$(per_node sh -c 'echo $RANK $LOCAL_RANK of $WORLD_SIZE' 2>/dev/null | cut -d' ' -f3- | sort | paste -sd,)"
code=0
per_node sh -c ': >up.$RANK; [ $RANK = 3 ] || exec sleep 600; while [ ! -e up.0 ]; do sleep 0.1; done; echo odd >&2; exit 9' 2>said || code=$?
expect "the program's exit code" 9 "$code"
expect "one voice tells the failure of two nodes" "error   node 1: rank 3" "$(grep '^error' said | cut -d' ' -f1-7)"
expect "a task for each rank" "0 0 of 4,1 1 of 4,2 0 of 4,3 1 of 4" \
  "$(timeout 120 srun --nodes 2 --ntasks 4 --ntasks-per-node 2 --cpus-per-task 1 "$gantrain" launch -q -- \
    sh -c 'echo $RANK $LOCAL_RANK of $WORLD_SIZE' 2>/dev/null | sort | paste -sd,)"
echo "requeued after SIGUSR1: $(cat node/STATUS), $(cat rank/STATUS)"
