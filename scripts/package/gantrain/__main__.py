# SPDX-License-Identifier: Apache-2.0
"""Starts the program of this wheel with the libraries of the PyTorch that is installed."""

import os
import re
import sys

TORCH = "2.11.0"
GLIBC = "0"  # of the wheel's platform; package.sh writes it here
NEED_NO_TORCH = "--version -V help presets slurm kube launch report serve track".split()
HERE = os.path.dirname(os.path.abspath(__file__))


def torch_folder():
    """Returns the folder of PyTorch without importing it: beside this package, else where Python
    finds it; "" if it is nowhere."""
    beside = os.path.join(os.path.dirname(HERE), "torch")
    if os.path.isfile(os.path.join(beside, "lib", "libtorch_cpu.so")):
        return beside
    from importlib.util import find_spec

    spec = find_spec("torch")
    folders = list(spec.submodule_search_locations or []) if spec else []
    return folders[0] if folders else ""


def torch_version(folder):
    """Returns the version of PyTorch in the folder without its build, "2.11.0"; "" if unknown."""
    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
            found = re.search(r"__version__ = ['\"]([^'\"+]+)", file.read())
    except OSError:
        return ""
    return found.group(1) if found else ""


def torch_problem(folder):
    """Returns why the program cannot compute with what is installed; "" if it can."""
    version = torch_version(folder) if folder else ""
    if version == TORCH:
        return ""
    found = f"PyTorch {version or 'of an unknown version'} in {folder}" if folder else "no PyTorch"
    return f"gantrain needs PyTorch {TORCH}, and there is {found}: pip install torch=={TORCH}"


def glibc_problem():
    """Returns why the loader would refuse the program on this system; "" if it would not."""
    try:
        name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
        numbers = [[int(part) for part in text.split(".")] for text in (version, GLIBC)]
    except (AttributeError, OSError, ValueError):
        return ""  # not GNU's, or it does not tell: the loader will say it
    if name != "glibc" or numbers[0] >= numbers[1]:
        return ""
    return (
        f"gantrain needs glibc {GLIBC} or newer, and this system has {version}: "
        "run it in a container (scripts/package.sh image) or on a newer system"
    )


def needs_torch(arguments):
    """Whether the command may compute something, which takes PyTorch."""
    words = arguments or ["--help"]
    return words[0] not in NEED_NO_TORCH and not {"-h", "--help"} & {*words}


def own_name(program):
    """Returns how the command is said again: its name where the shell would find this very one."""
    script = sys.argv[0]
    if os.path.basename(script) == "__main__.py":
        return program
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        candidate = os.path.join(folder, "gantrain")
        if os.path.isfile(candidate):
            return "gantrain" if os.path.samefile(candidate, script) else script
    return script


def main():
    """Becomes the program; returns only an exit code, if it cannot run here."""
    program = os.path.join(HERE, "bin", "gantrain")
    problem = glibc_problem()
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return 4
    environment = dict(os.environ)
    if not environment.get("GANTRAIN_TORCH_LIB"):
        folder = torch_folder()
        problem = torch_problem(folder)
        if problem and needs_torch(sys.argv[1:]):
            print(f"error: {problem}", file=sys.stderr)
            return 4
        if not problem:
            environment["GANTRAIN_TORCH_LIB"] = os.path.join(folder, "lib")
    os.execve(program, [own_name(program), *sys.argv[1:]], environment)


if __name__ == "__main__":
    sys.exit(main())
