# SPDX-License-Identifier: Apache-2.0
"""Trains with an official PyTorch code on pictures and draws from the average at equal steps.

    python scripts/peers/official_run.py --net stylegan2 --official FOLDER --data PICTURES.zip --out FOLDER \
        --kimg 60 --every 6 --seed 1 -- --resolution 32 --batch 16 --channel-base 512 --channel-max 64

Networks and losses are run from the checkout, as the benchmarks beside this file do; what is after `--` are
their settings. The loop around them is written here from the papers: lazy penalties with their corrected
learning rates, and an average with a half-life that grows with the run. Nothing is augmented. PICTURES.zip
has PNGs of the resolution, as `gantrain data pack` writes them.
FOLDER/<pictures seen>.zip has what the average draws, FOLDER/times.json the seconds of training until then.
The state is kept at each step, so the same command goes on where it was ended.
"""
import argparse
import io
import json
import os
import sys
import time
import warnings
import zipfile

import PIL.Image
import torch

import r3gan
import stylegan2
import stylegan3
from measuring import begin
from packed import load_pictures


def save_pictures(path, pictures):
    """pictures uint8 [N, C, H, W] as PNGs of a zip, which is there whole or not at all."""
    with zipfile.ZipFile(path + ".part", "w") as archive:
        for i, picture in enumerate(pictures.numpy().transpose(0, 2, 3, 1)):
            content = io.BytesIO()
            PIL.Image.fromarray(picture.squeeze()).save(content, "PNG", compress_level=1)
            archive.writestr(f"{i:05d}.png", content.getvalue())
    os.replace(path + ".part", path)


class Reals:
    """Batches of all pictures in a new order each pass, from `seed`."""

    def __init__(self, pictures, batch, seed):
        self.pictures, self.batch, self.seed = pictures, batch, seed

    def batch_at(self, iteration):
        count = len(self.pictures)
        places = torch.arange(iteration * self.batch, (iteration + 1) * self.batch)
        orders = {p: torch.randperm(count, generator=torch.Generator().manual_seed(1000003 * self.seed + p))
                  for p in set((places // count).tolist())}
        chosen = [int(orders[int(place) // count][int(place) % count]) for place in places]
        return self.pictures[chosen].float() / 127.5 - 1


class Training:
    """One iteration of an official code after the other. `peer` is the benchmark's class for it."""

    def __init__(self, args, peer, intervals):
        self.args, self.peer, self.intervals = args, peer, intervals
        peer.adam = {network: self.adam(network, interval)
                     for network, interval in ((peer.G, intervals.get("Greg")), (peer.D, intervals.get("Dreg")))}
        self.phases = [(name, run) for name, run in peer.phases().items() if name != "rest"]

    def adam(self, network, interval):
        """A lazy penalty moves the weights once more in each interval (Karras et al. 2020b, app. B)."""
        share = interval / (interval + 1) if interval else 1
        return torch.optim.Adam(network.parameters(), self.args.lr * share,
                                (self.args.beta1**share, self.args.beta2**share), 1e-8)

    def run(self, iteration, real):
        self.peer.real = real
        for name, phase in self.phases:
            if iteration % self.intervals.get(name, 1) == 0:
                phase()
        self.move_average((iteration + 1) * self.args.batch)

    def move_average(self, seen):
        half_life = 1000 * self.args.ema_kimg
        if self.args.ema_rampup > 0:
            half_life = min(half_life, seen * self.args.ema_rampup)
        keep = 0.5 ** (self.args.batch / max(half_life, 1e-8))
        with torch.no_grad():
            for mean, now in zip(self.peer.average.parameters(), self.peer.G.parameters()):
                mean.copy_(now.lerp(mean, keep))
            for mean, now in zip(self.peer.average.buffers(), self.peer.G.buffers()):
                mean.copy_(now)

    def state(self):
        peer = self.peer
        loss = {name: value for name, value in vars(peer.loss).items() if isinstance(value, torch.Tensor)}
        return {"nets": [net.state_dict() for net in (peer.G, peer.D, peer.average)],
                "adam": [peer.adam[net].state_dict() for net in (peer.G, peer.D)],
                "loss": loss, "random": torch.get_rng_state()}

    def restore(self, state):
        peer = self.peer
        for net, saved in zip((peer.G, peer.D, peer.average), state["nets"]):
            net.load_state_dict(saved)
        for net, saved in zip((peer.G, peer.D), state["adam"]):
            peer.adam[net].load_state_dict(saved)
        for name, saved in state["loss"].items():
            getattr(peer.loss, name).copy_(saved)
        torch.set_rng_state(state["random"])

    def draw(self, count, seed):
        """uint8 [count, C, H, W] of the average; the run's own random numbers are left as they are."""
        kept = torch.get_rng_state()
        torch.manual_seed(seed)
        pictures = []
        with torch.no_grad():
            for start in range(0, count, 64):
                z = torch.randn(min(64, count - start), self.args.z_dim)
                pictures.append(self.peer.average(z, torch.zeros(len(z), 0)))
        torch.set_rng_state(kept)
        return (torch.cat(pictures) * 127.5 + 128).clamp(0, 255).to(torch.uint8)


def stylegan2_training(args):
    peer = stylegan2.Training(args)
    return Training(args, peer, stylegan2.INTERVALS)


def stylegan3_training(args):
    return Training(args, stylegan3.StyleGan3(args), {"Dreg": stylegan2.INTERVALS["Dreg"]})


def r3gan_training(args):
    return Training(args, r3gan.Training(args), {})


NETS = {"stylegan2": (stylegan2.add_network_arguments, stylegan2_training, stylegan2.without_kernels),
        "stylegan3": (stylegan3.add_network_arguments, stylegan3_training, stylegan3.without_kernels),
        "r3gan": (r3gan.add_network_arguments, r3gan_training, stylegan2.without_kernels)}


def save_whole(path, write):
    write(path + ".part")
    os.replace(path + ".part", path)


def train(run, args, training):
    reals = Reals(load_pictures(run.data), args.batch, run.seed)
    state_file, times_file = os.path.join(run.out, "state.pt"), os.path.join(run.out, "times.json")
    iteration, times = 0, {}
    if os.path.exists(state_file):
        state = torch.load(state_file, weights_only=True)
        training.restore(state["training"])
        iteration, times = state["iteration"], state["times"]
    seconds = max(times.values(), default=0.0)
    for step in range(1, round(run.kimg / run.every) + 1):
        goal = round(1000 * run.every * step / args.batch)
        if goal <= iteration:
            continue
        start = time.monotonic()
        while iteration < goal:
            training.run(iteration, reals.batch_at(iteration))
            iteration += 1
        seconds += time.monotonic() - start
        times[f"{iteration * args.batch / 1000:g}"] = seconds
        save_pictures(os.path.join(run.out, f"{iteration * args.batch}.zip"), training.draw(run.draws, run.seed))
        save_whole(times_file, lambda file: open(file, "w").write(json.dumps(times)))
        save_whole(state_file, lambda file: torch.save(
            {"training": training.state(), "iteration": iteration, "times": times}, file))
        print(f"kimg {iteration * args.batch / 1000:g}: {seconds:.0f} s", flush=True)


def main():
    own = sys.argv[1:]
    theirs = []
    if "--" in own:
        theirs = own[own.index("--") + 1:]
        own = own[:own.index("--")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", choices=sorted(NETS), required=True)
    parser.add_argument("--official", required=True, help="checkout of the official repository")
    parser.add_argument("--data", required=True, help="zip of PNGs")
    parser.add_argument("--out", required=True)
    parser.add_argument("--kimg", type=float, required=True)
    parser.add_argument("--every", type=float, required=True, help="kimg between drawings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=2048, help="pictures of each drawing")
    run = parser.parse_args(own)
    settings = argparse.ArgumentParser(prog="official_run.py --net NET ... --")
    NETS[run.net][0](settings)
    settings.add_argument("--lr", type=float, default=2.5e-3)
    settings.add_argument("--beta1", type=float, default=0.0)
    settings.add_argument("--beta2", type=float, default=0.99)
    settings.add_argument("--ema-kimg", type=float, default=5)
    settings.add_argument("--ema-rampup", type=float, default=0.05)
    args = settings.parse_args(["--official", run.official, *theirs])
    os.makedirs(run.out, exist_ok=True)
    sys.path.insert(0, args.official)
    stylegan2.stand_in_for_missing_modules()
    begin(args)
    torch.manual_seed(run.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        NETS[run.net][2]()
        train(run, args, NETS[run.net][1](args))


if __name__ == "__main__":
    main()
