# SPDX-License-Identifier: Apache-2.0
"""What the peers have in common: timing the phases of an iteration, and memory."""
import json
import math
import statistics
import sys
import time

import torch

ROWS = 3  # of iterations, on a GPU
ROW_SECONDS = 1


def add_arguments(parser, warm, steps):
    parser.add_argument("--steps", type=int, default=steps, help="timed iterations")
    parser.add_argument("--warm", type=int, default=warm, help="iterations before them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")


def begin(args):
    """Sets what a run would set before it computes."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.device == "cpu":
        return
    if not torch.cuda.is_available():
        sys.exit("--device cuda: torch sees no GPU")
    torch.backends.cudnn.benchmark = True
    # Neither theirs nor ours rounds what is float32, unless asked for.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def wait(args):
    if args.device == "cuda":
        torch.cuda.synchronize()


def time_phases(phases, args):
    """Runs all phases, {name: function}, one after the other; returns {name: [seconds]}. On a GPU
    each is waited for."""
    seconds = {name: [] for name in phases}
    for i in range(args.warm + args.steps):
        for name, run in phases.items():
            wait(args)
            start = time.monotonic()
            run()
            wait(args)
            if i >= args.warm:
                seconds[name].append(time.monotonic() - start)
    return seconds


def time_iterations(phases, intervals, args):
    """Mean seconds of an iteration, of some rows of them in which nothing waits for the GPU. A phase
    runs in every so many iterations as `intervals` say: 1 where they do not name it."""
    whole_round = math.lcm(*intervals.values()) if intervals else 1

    def seconds_of(count):
        wait(args)
        start = time.monotonic()
        for i in range(count):
            for name, run in phases.items():
                if i % intervals.get(name, 1) == 0:
                    run()
        wait(args)
        return time.monotonic() - start

    seconds_of(whole_round)
    rounds = min(max(math.ceil(ROW_SECONDS / seconds_of(whole_round)), 1), 256)
    return [seconds_of(whole_round * rounds) / (whole_round * rounds) for _ in range(ROWS)]


def measure(phases, intervals, args):
    """The members of the answer that say how long phases and, on a GPU, iterations took."""
    values = {"phases": time_phases(phases, args)}
    if args.device == "cuda":
        values["iterations"] = time_iterations(phases, intervals, args)
        values["iteration"] = statistics.median(values["iterations"])
    return values


def peak_bytes():
    """The most memory that this process has had."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return 0


def memory(args):
    """On a GPU, the most that tensors had there, and that was kept for them."""
    if args.device == "cpu":
        return {"peak_bytes": peak_bytes()}
    return {"peak_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved()}


def answer(**values):
    """Prints the JSON line that `gantrain bench` reads."""
    print(json.dumps({"torch": torch.__version__, "peak_bytes": peak_bytes(), **values}))
