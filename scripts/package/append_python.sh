#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# append_python.sh PROGRAM: writes a zip with started_by_python/__main__.py behind a program, which Linux
# does not see, and which Python runs where it is told to run the program. strip and patchelf take it away.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
zip=$1.python.zip
trap 'rm -f "$zip"' EXIT
zip=$(cd "$(dirname "$1")" && pwd)/$(basename "$zip")
(cd "$here/started_by_python" && cmake -E tar cf "$zip" --format=zip --mtime=2000-01-01 __main__.py)
cat "$zip" >>"$1"
