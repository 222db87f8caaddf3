#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# trackers_test.sh GANTRAIN: curves in a real MLflow server and a real Trackio server, whatever is killed on the way.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
python=$("$root/scripts/setup_python.sh" trackers 2>"$tmp/said") ||
  skip "the servers of test/python/trackers.txt are not to be had: $(tail -n 1 "$tmp/said")"
command -v openssl >/dev/null || skip "no openssl, which makes the certificate of an https server"
"$python" "$root/test/python/trackers.py" "$1" "$tmp"
