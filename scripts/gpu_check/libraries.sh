# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Where gpu_check.sh finds PyTorch's libraries and CUDA's beside them. Sourced.

# torch_folder PYTHON: torch/lib of that Python's PyTorch, which is not imported; what is wrong, else.
torch_folder() {
  "$1" -c '
import importlib.util, os, re, sys
spec = importlib.util.find_spec("torch")
folder = list(spec.submodule_search_locations or [])[0] if spec else ""
try:
    text = open(os.path.join(folder, "version.py")).read() if folder else ""
except OSError:
    text = ""
found = re.search(r"__version__ = .([0-9.]+)", text)
version = found.group(1) if found else ""
if version != "2.11.0":
    sys.exit("gpu_check: %s has PyTorch %s, and 2.11.0 with CUDA 13.0 is needed" % (sys.executable, version or "nowhere"))
print(os.path.join(folder, "lib"))' 
}

# beside_torch TORCH_LIB: CUDA libraries that PyTorch's wheel brings along.
beside_torch() {
  local folder
  for folder in "$1"/../../nvidia/*/lib; do
    [ ! -d "$folder" ] || (cd "$folder" && pwd)
  done
}

# Sets LD_LIBRARY_PATH: GANTRAIN_TORCH_LIB counts, then, for an archive, the Python. A build knows its own.
find_libraries() {
  local folder=${GANTRAIN_TORCH_LIB:-} path
  if [ -z "$folder" ]; then
    [ -n "$packed" ] || return 0
    python=${python:-$(command -v python3 || true)}
    if [ -z "$python" ]; then echo "gpu_check: there is no python3; --python names one" >&2; return 1; fi
    folder=$(torch_folder "$python") || return 1
  fi
  if [ ! -e "$folder/libtorch_cpu.so" ]; then echo "gpu_check: $folder has no libtorch_cpu.so" >&2; return 1; fi
  path=$folder
  while read -r folder; do path+=:$folder; done < <(beside_torch "$folder")
  export LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}
