#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mpirun_test.sh GANTRAIN: the two tasks of Open MPI's mpirun are the two ranks that gantrain starts itself.
. "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
command -v mpirun >/dev/null || skip "mpirun is not installed (as root, scripts/test.sh installs Debian's Open MPI)"
# Each with a session folder of its own: of two that make the common one in the same moment, Open MPI 4 ends one.
mpi() {
  local session
  session=$(mktemp -d "$tmp/session.XXX")
  timeout 250 mpirun --allow-run-as-root --oversubscribe --mca orte_tmpdir_base "$session" -n 2 "$@"
}

tiny "$1" "$tmp/own" --nproc 2
mpi "$1" "${TINY[@]}" --run-dir "$tmp/mpirun"
expect_same_run "$tmp/own" "$tmp/mpirun"

# One verdict, whoever started the ranks. mpirun kills those that are left after a second, which is little on a busy machine.
export OMPI_MCA_odls_base_sigkill_timeout=4
for rank in 0 1; do
  beside expect_named "$tmp/killed$rank" KILL "$rank" mpi "$1"
  beside expect_named "$tmp/stopped$rank" STOP "$rank" mpi "$1"
done
all_named

# A program of the user's, whose ranks the tasks become.
expect "gantrain launch" "0 of 2 1 of 2" "$(mpi "$1" launch -- sh -c 'echo $RANK of $WORLD_SIZE' | sort | xargs)"

# Two at a time on one machine do not meet each other.
mpi "$1" "${TINY[@]}" --run-dir "$tmp/first" >"$tmp/first.out" 2>&1 &
first=$!
mpi "$1" "${TINY[@]}" --run-dir "$tmp/second"
wait "$first" || { cat "$tmp/first.out" >&2; exit 1; }
expect_same_run "$tmp/own" "$tmp/first"
expect_same_run "$tmp/own" "$tmp/second"
