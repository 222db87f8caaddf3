#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# programs_test.sh GANTRAIN: `gantrain launch` starts users' programs, among them PyTorch's own.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
gantrain=$1
script=$root/test/python/launched.py
cd "$tmp"
launch() { timeout 250 "$gantrain" launch "$@"; }
code_of() { # code_of COMMAND...: its exit code; its output goes to out and err
  local code=0
  "$@" >out 2>err || code=$?
  echo "$code"
}
says() { if grep -qE -- "$1" err; then echo yes; else cat err >&2; fi; }

# The command line: torchrun's flags, and where the program begins.
cat >words.py <<'EOF'
import os, sys
print(os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["TORCHELASTIC_RUN_ID"], *sys.argv[1:])
EOF
expect "torchrun's flags" "0" "$(code_of launch --standalone --nproc_per_node=2 --rdzv-backend c10d --rdzv_id=job7 --max_restarts 3 -r 3 words.py --color always --nproc 5)"
expect "the program's own words" "[rank 0] 0 2 job7 --color always --nproc 5
[rank 1] 1 2 job7 --color always --nproc 5" "$(sort out)"
expect "a module" "0 1 job7 -- -x" "$(launch --run-id job7 --tee 3 -m words -- -x)"
expect "a module behind --" "0 1 job7 -x" "$(launch --run-id=job7 -- -m words -x)"
expect "another program" "-c" "$(launch -q -- printf %s -c)"
expect "what is piped in is rank 0's" "12" "$(echo 12 | launch -q --nproc 2 -- sh -c 'cat' | cut -d' ' -f3)"
expect "the interpreter may be another one" "-u words.py" "$(PYTHON_EXEC="echo" launch words.py)"
expect "old scripts" "[rank 0] local rank 0 0" "$(launch -q --nproc 2 --pass-local-rank "$script" old | sort | head -n 1)"
echo 'import sys; "--local-rank"; print(sys.argv[1])' >new.py
expect "scripts of PyTorch 2" "--local-rank=0" "$(launch --pass-local-rank new.py)"
expect "behind the script where the interpreter is named" "--local-rank=0" "$(launch --pass-local-rank -- python3 -u new.py)"
expect "no --nproc" "0 1" "$(CUDA_VISIBLE_DEVICES='' launch words.py | cut -d' ' -f1,2)"
for wrong in "2:launch" "3:launch missing.py" "3:launch -- missing" "2:launch --nnodes 1:4 words.py" "2:launch --nprocs 2 words.py" \
  "2:launch --nnodes 2 --rdzv-endpoint h:1 words.py" "4:launch --nproc gpu words.py" "2:launch --nproc none words.py" "2:launch --run-id a/b words.py"; do
  # shellcheck disable=SC2086 # several words
  expect "exit code of ${wrong#*:}" "${wrong%%:*}" "$(CUDA_VISIBLE_DEVICES='' code_of ${wrong#*:})"
  expect "one line of ${wrong#*:}" "1" "$(grep -c '' err)"
done

# A task of another launcher is a rank itself, which this program becomes.
expect "a worker of srun" "3 4" "$(SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_NTASKS=4 SLURM_NODEID=1 SLURM_STEP_NUM_NODES=2 \
  SLURM_STEP_TASKS_PER_NODE='2(x2)' SLURM_STEP_NODELIST='n[1-2]' launch words.py | cut -d' ' -f1,2)"
# Slurm numbers the nodes, so PyTorch's own command needs no --node-rank. The other node does not come.
srun_nodes() { SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 \
  SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE='1(x2)' SLURM_STEP_NODELIST='n[1-2]' "$@"; }
expect "torchrun's flags under srun" "4" "$(code_of srun_nodes launch --nnodes 2 --nproc_per_node 2 --rdzv_id 7 --rdzv_backend c10d \
  --rdzv_endpoint '[::1]:1' --timeout 1s --log-dir logs7 words.py)"
expect "where it waits" yes "$(says 'no rendezvous at ::1:1 ')"
expect "the run's name is given" yes "$(says '^logs    logs7/7/0/')"
expect "node 0 names the run" "4" "$(code_of launch --nnodes 2 --node-rank 1 --rdzv-endpoint 127.0.0.1:1 --timeout 1s --log-dir logs7 words.py)"
expect "which is said" yes "$(says '^logs    logs7/RUN/0/.*, where RUN is what node 0 says')"
expect "a worker of mpirun" "1 2" "$(OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
  MASTER_ADDR=127.0.0.1 MASTER_PORT=29999 launch words.py | cut -d' ' -f1,2)"

# 1 GB of output: every line whole and with its rank, through a pipe, and the launcher, rank 0's parent, stays as small as it is.
export line
line=$(printf 'x%.0s' $(seq 99))
launch -q --nproc 2 -- sh -c 'if [ $RANK = 1 ]; then yes $line | head -c 1000000000; echo >printed; else
  grep VmHWM /proc/$PPID/status >before; while [ ! -e printed ]; do sleep 0.05; done; grep VmHWM /proc/$PPID/status >after; fi' |
  LC_ALL=C grep -cxF "[rank 1] $line" >lines
expect "1 GB" "10000000" "$(cat lines)"
kib() { tr -dc 0-9 <"$1"; }
expect "the launcher's memory grows by less than 4 MiB" "" "$(awk -v b="$(kib before)" -v a="$(kib after)" 'BEGIN { if (a - b > 4096) print b, a }')"
# A node has two pipes for each rank.
expect "too few files may be opened" "4" "$(ulimit -n 100; code_of launch --nproc 100 -- true)"
expect "both numbers" yes "$(says 'the launcher of 100 ranks may have to open 433 files at a time, and 100 are allowed')"
expect "a soft limit is raised" "0" "$(ulimit -Sn 100; code_of launch --nproc 100 -- true)"
# Nothing stays behind in the folder of temporary files.
mkdir own
TMPDIR=$tmp/own launch -q --nproc 2 -- true
expect "no files are left" "" "$(ls own)"
TMPDIR=$tmp/own "$gantrain" launch -q -- sh -c 'echo >started; exec sleep 600' &
pid=$!
while [ ! -s started ]; do sleep 0.05; done
kill -9 "$pid"
wait "$pid" || true
for _ in $(seq 1200); do
  [ -n "$(ls own)" ] || break
  sleep 0.05
done
expect "nor by a launcher that was killed" "" "$(ls own)"

python=${GANTRAIN_PYTHON:-python3}
[ -z "${GANTRAIN_NO_TORCH_REASON:-}" ] || skip "no torch: $GANTRAIN_NO_TORCH_REASON"
"$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null || skip "$python has no torch"
PATH=$(dirname "$python"):$PATH
expect "an all-reduce" "[rank 0] sum 3 of 2 attempt 0
[rank 1] sum 3 of 2 attempt 0" "$(launch -q --nproc 2 "$script" reduce | sort)"
expect "a script as Accelerate's users have them" "main process of 2
same weights True
steps 10, 80 of 80 pictures" "$(launch -q --nproc 2 "$script" accelerate | cut -d' ' -f3- | sort -u)"
expect "DistributedDataParallel" "2" "$(launch -q --nproc 2 "$script" ddp | grep -c 'same weights True')"
expect "a rank that fails" "1" "$(code_of launch --nproc 2 --log-dir logs --run-id r "$script" dies)"
expect "its cause" yes "$(says '^error   rank 1 .* exit code 1: ValueError: the loss is not a number$')"
expect "the screen has it alone" "" "$(grep 'rank 0' err || true)"
expect "its file" yes "$(grep -q '^.*ValueError: the loss is not a number' logs/r/0/rank1.err && echo yes)"
expect "its error file" yes "$(grep -q 'ValueError' logs/r/0/rank1.json && echo yes)"
# Fails once, and meets again at another port.
expect "a restart" "0" "$(code_of launch --nproc 2 --max-restarts 1 -- sh -c '[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec python3 '"$script"' dies; exec python3 '"$script"' reduce')"
expect "the second attempt" "2" "$(grep -c 'sum 3 of 2 attempt 1' out)"

# Ranks that hang in a collective are stopped.
cat >hangs.py <<'EOF'
import os, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 0:
    open("met", "w").close()
    dist.all_reduce(torch.zeros(1))
time.sleep(600)
EOF
"$gantrain" launch --nproc 2 "$tmp/hangs.py" 2>err &
pid=$!
while [ ! -e met ]; do sleep 0.05; done
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
expect "a stop of ranks that hang" "143" "$code"
expect "no rank is left" "" "$(pgrep -f "$tmp/hangs.py" || true)"
