# SPDX-License-Identifier: Apache-2.0
"""R3GAN's official PyTorch code: seconds of D with both penalties, and of G.

    python scripts/peers/r3gan.py --official FOLDER --resolution 64 --batch 16 --width 64:48,96

FOLDER is a checkout of R3GAN's official repository. Its networks and its loss run from there on random
pictures, without augmentation and without classes. Prints one JSON line.
"""
import argparse
import copy
import importlib

import torch

from measuring import add_arguments
from stylegan2 import time_official


def by_resolution(text, resolutions, auto):
    """"64:48,96": 48 at 64 pixels, 96 at all others; "auto": what auto(resolution) says."""
    if text == "auto":
        return [auto(r) for r in resolutions]
    *named, rest = text.split(",")
    named = dict(map(int, entry.split(":")) for entry in named)
    return [named.get(r, int(rest)) for r in resolutions]


def networks_of(args):
    networks = importlib.import_module("training.networks")
    resolutions = [4 << i for i in range(args.resolution.bit_length() - 2)]
    width = by_resolution(args.width, resolutions, lambda r: 768 * 32 // max(r, 32))
    cardinality = by_resolution(args.cardinality, resolutions, lambda r: width[resolutions.index(r)] // 8)
    blocks = by_resolution(args.blocks, resolutions, None)
    half = [-1 - i for i in range(args.fp16_res)]
    # The stages of D are those of G, backwards.
    shared = {"ExpansionFactor": 2, "c_dim": 0, "img_resolution": args.resolution}
    G = networks.Generator(WidthPerStage=width, CardinalityPerStage=cardinality, BlocksPerStage=blocks,
                           NoiseDimension=args.z_dim, FP16Stages=half, **shared)
    D = networks.Discriminator(WidthPerStage=width[::-1], CardinalityPerStage=cardinality[::-1],
                               BlocksPerStage=blocks[::-1], FP16Stages=[-1 - i for i in half], **shared)
    return [network.train().requires_grad_(False).to(args.device) for network in (G, D)]


class Training:
    def __init__(self, args):
        self.args = args
        self.G, self.D = networks_of(args)
        self.average = copy.deepcopy(self.G).eval()
        self.loss = importlib.import_module("training.loss").R3GANLoss(self.G, self.D)
        self.adam = {network: torch.optim.Adam(network.parameters(), 2e-4, (0.0, 0.9), 1e-8)
                     for network in (self.G, self.D)}
        self.real = torch.rand(args.batch, 3, args.resolution, args.resolution, device=args.device) * 2 - 1
        self.labels = torch.zeros(args.batch, 0, device=args.device)

    def phase(self, name, network):
        """One phase as their training loop runs it."""
        def run():
            adam = self.adam[network]
            adam.zero_grad(set_to_none=True)
            network.requires_grad_(True)
            z = torch.randn(self.args.batch, self.args.z_dim, device=self.real.device)
            self.loss.accumulate_gradients(name, self.real, self.labels, z, self.args.gamma, 1)
            network.requires_grad_(False)
            adam.step()
        return run

    def move_average(self):
        with torch.no_grad():
            for mean, now in zip(self.average.parameters(), self.G.parameters()):
                mean.copy_(now.lerp(mean, 0.999))

    def phases(self):
        return {"D": self.phase("D", self.D), "G": self.phase("G", self.G), "rest": self.move_average}


def add_network_arguments(parser):
    parser.add_argument("--official", required=True, help="checkout of the official repository")
    parser.add_argument("--resolution", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", default="auto", help="feature maps, as in r3gan.width")
    parser.add_argument("--cardinality", default="auto", help="groups of 3x3 convolutions, likewise")
    parser.add_argument("--blocks", default="2", help="residual blocks, likewise")
    parser.add_argument("--z-dim", type=int, default=64)
    parser.add_argument("--gamma", type=float, default=2)
    parser.add_argument("--fp16-res", type=int, default=0, help="of the highest resolutions, in bfloat16")
    add_arguments(parser, warm=1, steps=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_network_arguments(parser)
    time_official(parser.parse_args(), ("networks.py",), Training, {})


if __name__ == "__main__":
    main()
