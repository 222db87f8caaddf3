#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds from the kill -9 of one of several ranks to the next iteration that had not been done before.

    scripts/peers/lost_rank.py --gantrain build/gantrain --python PYTHON [--ranks 4 --times 3 --ways elastic,restart,torchrun,launch]

Four ways to go on, one after another, each so often:
    elastic    gantrain's --nproc MIN:MAX, from the memory of the ranks that are left
    restart    gantrain's --max-restarts, from a state on disk
    torchrun   torchrun's --max-restarts, with a script as users write them: it saves, and goes on from what it saved
    launch     the same script under gantrain launch
Both train the networks of the preset dcgan-tiny with batch 16 on a thread a rank over gloo and save every 20 iterations. The
script, whose pictures are noise, keeps no average and says nothing, so it does less. PYTHON has PyTorch.
Prints a line for each way, and one JSON line last. `again`: iterations that were computed twice; null where ranks go on
from memory. `ended`: how often the whole run ended instead.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time

from programs import running

BATCH, PIXELS, SAVE_EVERY = 16, 32, 20
LONG = 300  # seconds, for what never comes


def train(folder):
    """A rank of the script: what users write to come back after a failure."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import softplus
    from torch.nn.parallel import DistributedDataParallel

    from dcgan import discriminator, generator

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    nets = {"G": generator(100, 128, PIXELS), "D": discriminator(32, PIXELS)}
    adam = {name: torch.optim.Adam(net.parameters(), 2e-4, (0.5, 0.999)) for name, net in nets.items()}
    state, done = folder / "state.pt", 0
    if state.exists():
        saved = torch.load(state)
        done = saved["done"]
        for name in nets:
            nets[name].load_state_dict(saved[name])
            adam[name].load_state_dict(saved["adam " + name])
    if rank == 0 and (folder / "iterations").exists():
        (folder / "resumed").write_text(str(done))
    parallel = {name: DistributedDataParallel(net, broadcast_buffers=False) for name, net in nets.items()}
    (folder / f"pid{rank}").write_text(str(os.getpid()))
    share = BATCH // dist.get_world_size()
    while True:
        real = torch.rand(share, 3, PIXELS, PIXELS) * 2 - 1
        fake = parallel["G"](torch.randn(share, 100, 1, 1))
        loss = softplus(-parallel["D"](real)).mean() + softplus(parallel["D"](fake.detach())).mean()
        adam["D"].zero_grad()
        loss.backward()
        adam["D"].step()
        adam["G"].zero_grad()
        softplus(-nets["D"](fake)).mean().backward()
        adam["G"].step()
        done += 1
        if rank > 0:
            continue
        with open(folder / "iterations", "a", encoding="ascii") as file:
            file.write(f"{done}\n")
        if done % SAVE_EVERY == 0:
            part = folder / "part.pt"
            torch.save({"done": done, **{name: net.state_dict() for name, net in nets.items()},
                        **{"adam " + name: adam[name].state_dict() for name in nets}}, part)
            os.replace(part, state)


class Way:
    """A program whose ranks train, and what it leaves in a folder of its own."""

    def __init__(self, args, name, folder):
        self.args, self.name, self.folder = args, name, folder
        self.of_a_script = name in ("torchrun", "launch")
        self.run = folder if self.of_a_script else folder / "run"

    def command(self):
        ranks = self.args.ranks
        if self.name == "torchrun":
            # With the store that it shares with its ranks, they find the addresses of those before: pytorch/pytorch issue 135712.
            return ["env", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", self.args.python, "-m", "torch.distributed.run", "--standalone",
                    f"--nproc-per-node={ranks}", "--max-restarts=3", "--monitor-interval=0.1", __file__, "--train", str(self.folder)]
        if self.name == "launch":
            return [self.args.gantrain, "launch", "--standalone", "--nproc", str(ranks), "--max-restarts", "3", "--",
                    self.args.python, __file__, "--train", str(self.folder)]
        kimg = BATCH / 1000
        more = ["--nproc", f"1:{ranks}"] if self.name == "elastic" else ["--nproc", str(ranks), "--max-restarts", "3"]
        return [self.args.gantrain, "--preset", "dcgan-tiny", "--batch", str(BATCH), "--device", "cpu", "--threads", "1", "--kimg",
                "100000", "--metrics", "none", "--save-every", str(SAVE_EVERY * kimg), "--set", f"train.tick={kimg}", "--set",
                "samples.every=1000", "--run-dir", str(self.run), *more]

    def iterations(self):
        """The iterations that are done, in the order in which they were done."""
        try:
            if self.of_a_script:
                lines = (self.run / "iterations").read_text().split("\n")[:-1]
                return [int(line) for line in lines]
            lines = (self.run / "stats.jsonl").read_text().split("\n")[:-1]
            return [round(json.loads(line)["Progress/kimg"]["mean"] * 1000 / BATCH) for line in lines]
        except FileNotFoundError:
            return []

    def resumed_at(self):
        """The iteration from which the ranks that were started again went on; None: they were not."""
        if self.of_a_script:
            told = self.run / "resumed"
            return int(told.read_text()) if told.exists() else None
        log = (self.run / "log.txt").read_text()
        found = re.search(r"resume  at ([\d.]+) kimg", log)
        if found:
            return round(float(found.group(1)) * 1000 / BATCH)
        return 0 if "starting the ranks again" in log else None  # before its first state was written

    def victim(self):
        """The process of a rank that is not rank 0."""
        number = random.randrange(1, self.args.ranks)
        if self.of_a_script:
            return int((self.run / f"pid{number}").read_text())
        return json.loads((self.run / "errors/pids.json").read_text())[str(number)]

    def wait(self, child, holds):
        end = time.monotonic() + LONG
        while not holds():
            if child.poll() is not None or time.monotonic() > end:
                said = (self.folder / "said.txt").read_text(errors="replace").splitlines()[-40:]
                raise RuntimeError("\n".join([f"{self.name}: no more iterations", *said]))
            time.sleep(0.002)

    def measure(self):
        """Seconds to the next iteration that is new, and how many were computed again; None: all ranks went on."""
        with running(self.command(), self.folder / "said.txt", threads=1) as child:
            enough = SAVE_EVERY + random.randrange(SAVE_EVERY // 2, SAVE_EVERY)
            self.wait(child, lambda: max(self.iterations(), default=0) >= enough)
            os.kill(self.victim(), signal.SIGKILL)
            killed, before = time.monotonic(), max(self.iterations(), default=enough)
            self.wait(child, lambda: max(self.iterations(), default=0) > before + 1)  # one may have been done already
            seconds = time.monotonic() - killed
            resumed = self.resumed_at()
            # The ranks that are left may have done and saved one more before they noticed.
            return seconds, None if resumed is None else max(before - resumed, 0)


def summary(found, ended):
    """`found`: what measure() returned each time that it did; `ended`: how often the run ended instead."""
    seconds, again = [one[0] for one in found], [one[1] for one in found]
    if not found:
        return {"ended": ended}
    return {"seconds": statistics.median(seconds), "least": min(seconds), "most": max(seconds), "ended": ended,
            "again": None if None in again else statistics.median(again)}


def text_of(row):
    parts = [f"{row['seconds']:6.2f} s ({row['least']:.2f} to {row['most']:.2f})"] if "seconds" in row else []
    parts += [f"{row['again']:.0f} iterations computed again"] if row.get("again") is not None else []
    return ", ".join(parts + ([f"ended {row['ended']} times"] if row["ended"] else []))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--gantrain", default="build/gantrain")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--ways", default="elastic,restart,torchrun,launch")
    parser.add_argument("--train", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        return train(args.train)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))  # ends what it has started, too
    if args.ranks < 2:
        parser.error("--ranks: at least two, of which one is lost")
    args.gantrain = shutil.which(args.gantrain) or parser.error(f"{args.gantrain}: no program")
    result = {}
    for name in args.ways.split(","):
        found, ended = [], 0
        for _ in range(args.times):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found.append(Way(args, name, pathlib.Path(folder)).measure())
                except RuntimeError as error:
                    print(error, file=sys.stderr, flush=True)
                    ended += 1
        result[name] = summary(found, ended)
        print(f"{name:10} {text_of(result[name])}", flush=True)
    print(json.dumps({"ranks": args.ranks, "times": args.times, **result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
