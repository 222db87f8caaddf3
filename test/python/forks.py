# SPDX-License-Identifier: Apache-2.0
"""forks.py: programs of Python in forks of one that has imported torch, which takes seconds.

Each line of standard input is a JSON list: a folder to work in, a file for what is said, the program's path, its
arguments. Each line of standard output answers one: the program's exit status. The first line names which of torch and
the packages for ONNX there are.
"""

import importlib.util
import json
import os
import runpy
import sys
import traceback


def run(folder, said, program, *arguments):
    """The program's exit status."""
    os.chdir(folder)
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = [program, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    try:
        runpy.run_path(program, run_name="__main__")
        return 0
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1


modules = [name for name in ("torch", "onnxruntime", "onnxscript") if importlib.util.find_spec(name)]
if "torch" in modules:
    import torch  # noqa: F401
print(*modules, flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        status = run(*json.loads(line))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # what the fork has of the first process's threads is not waited for
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
