#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/dist_train.sh CONFIG GPUS [gantrain's flags]
# Trains with GPUS ranks on this node. CONFIG is a preset or a JSON file. For several nodes, call it on
# each with NNODES, NODE_RANK, MASTER_ADDR and PORT set (1, 0, 127.0.0.1 and 29500 if not).
. "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
[ $# -ge 2 ] || { echo "usage: dist_train.sh CONFIG GPUS [gantrain's flags]" >&2; exit 2; }

name_config "$1"
flags=(--nproc "$2")
if [ "${NNODES:-1}" != 1 ]; then
  flags+=(--nnodes "$NNODES" --node-rank "${NODE_RANK:-0}" --master-addr "${MASTER_ADDR:-127.0.0.1}"
    --master-port "${PORT:-29500}")
elif [ -n "${PORT:-}" ]; then # else a port that the kernel chooses: no two runs on a node collide
  flags+=(--master-port "$PORT")
fi
gantrain=$(find_gantrain)
exec "$gantrain" train "${config[@]}" "${flags[@]}" "${@:3}"
