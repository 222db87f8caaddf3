#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A throw-away Slurm on this host, for tests: Debian's packages, root, no systemd, no cgroups.
#   slurm_onenode.sh up [N]   N nodes (default 1), all on this host, in partition `debug`; idle in 1-2 s
#   slurm_onenode.sh down     ends the daemons by the pids that were written down
#   eval "$(slurm_onenode.sh env)"   SLURM_CONF, which every srun, sbatch, squeue needs
# SLURM_TEST_DIR (state; required), SLURM_TEST_CPUS and SLURM_TEST_GPUS (fake) per node, SLURM_TEST_PORT.
set -euo pipefail
dir=${SLURM_TEST_DIR:?} port=${SLURM_TEST_PORT:-17817}
cpus=${SLURM_TEST_CPUS:-$(nproc)} gpus=${SLURM_TEST_GPUS:-0}
host=$(hostname -s) conf=$dir/slurm.conf
export SLURM_CONF=$conf

start() { # start NAME COMMAND...: in the background, in a session of its own
  setsid "${@:2}" >"$dir/$1.out" 2>&1 </dev/null &
  echo "$! $1" >>"$dir/pids"
}

start_munge() {
  # munged refuses folders that others can write, and a key that others can read.
  chmod 0755 "$dir" "$dir/munge"
  head -c 128 /dev/urandom >"$dir/munge/key"
  chmod 0400 "$dir/munge/key"
  start munged munged --foreground --socket="$dir/munge/sock" --key-file="$dir/munge/key" \
    --log-file="$dir/munge/log" --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed"
  for _ in {1..300}; do [ ! -S "$dir/munge/sock" ] || break; sleep 0.1; done
}

# gres.conf with fake GPUs, and the words that slurm.conf says of them.
gres() {
  local i
  ((gpus)) || return 0
  for ((i = 0; i < gpus; i++)); do
    [ -e "$dir/gpu$i" ] || mknod "$dir/gpu$i" c 1 3 # File= must be a device: twins of /dev/null
    echo "Name=gpu File=$dir/gpu$i"
  done >"$dir/gres.conf"
  echo "Gres=gpu:$gpus"
}

write_conf() { # write_conf N
  local i node_gres
  node_gres=$(gres)
  # cred_expire: a requeued job waits 6 s instead of 121. config_overrides: more CPUs than there are.
  cat >"$conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$dir/munge/sock,cred_expire=5
CredType=cred/munge
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,requeue_setup_env_fail
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
SwitchType=switch/none
JobRequeue=1
KillWait=10
MinJobAge=600
SlurmdTimeout=60
${node_gres:+GresTypes=gpu}
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
END
  for ((i = 1; i <= $1; i++)); do
    echo "NodeName=node$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 10 + i)) CPUs=$cpus $node_gres State=UNKNOWN"
  done >>"$conf"
}

up() { # up N
  local i
  mkdir -p "$dir"/{state,log,munge} && : >"$dir/pids"
  write_conf "$1"
  start_munge
  start slurmctld slurmctld -D -i -f "$conf"
  for ((i = 1; i <= $1; i++)); do
    mkdir -p "$dir/spool/node$i"
    start "slurmd$i" slurmd -D -f "$conf" -N "node$i"
  done
  for _ in {1..300}; do
    [ "$(sinfo -h -N -o '%T' 2>/dev/null | grep -c idle)" = "$1" ] && return
    sleep 0.2
  done
  echo "slurm_onenode.sh: the nodes do not become idle:" >&2
  { sinfo -N -o '%N %T %E'; tail -n 5 "$dir"/*.out "$dir"/log/*; } >&2
  return 1
}

down() {
  local pid alive
  scancel --full -u root 2>/dev/null || true
  mapfile -t pids < <(tac "$dir/pids" | cut -d' ' -f1)
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for _ in {1..50}; do
    alive=
    for pid in "${pids[@]}"; do ! kill -0 "$pid" 2>/dev/null || alive=1; done
    [ -n "$alive" ] || return 0
    sleep 0.2
  done
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
}

export PATH=$PATH:/usr/sbin
case ${1:-} in
  up) up "${2:-1}" ;;
  down) down ;;
  env) echo "export SLURM_CONF=$conf" ;;
  *) echo "usage: slurm_onenode.sh up [N] | down | env" >&2; exit 2 ;;
esac
