#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every source names its licence in its first three lines.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
cd "$root"
without=
while read -r file; do
  head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || without+=" $file"
done < <(find CMakeLists.txt .ci/run app lib scripts test presets -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.py' \
  -o -name '*.cmake' -o -name 'CMakeLists.txt' -o -name run \))
expect "files without an SPDX line" "" "$without"
