# SPDX-License-Identifier: Apache-2.0
"""What the peers have in common: timing the phases of an iteration, and memory."""
import json
import time

import torch


def add_arguments(parser, warm, steps):
    parser.add_argument("--steps", type=int, default=steps, help="timed iterations")
    parser.add_argument("--warm", type=int, default=warm, help="iterations before them")
    parser.add_argument("--threads", type=int, default=1)


def time_phases(phases, args):
    """Runs all phases, {name: function}, one after the other; returns {name: [seconds]}."""
    seconds = {name: [] for name in phases}
    for i in range(args.warm + args.steps):
        for name, run in phases.items():
            start = time.monotonic()
            run()
            if i >= args.warm:
                seconds[name].append(time.monotonic() - start)
    return seconds


def peak_bytes():
    """The most memory that this process has had."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return 0


def answer(**values):
    """Prints the JSON line that `gantrain bench` reads."""
    print(json.dumps({"torch": torch.__version__, "peak_bytes": peak_bytes(), **values}))
