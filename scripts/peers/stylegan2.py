# SPDX-License-Identifier: Apache-2.0
"""StyleGAN2's official PyTorch code: seconds of Gmain, path length (Greg), Dmain and R1 (Dreg).

    python scripts/peers/stylegan2.py --official FOLDER --resolution 64 --batch 8

FOLDER is a checkout of the official repository. Its networks and its loss run from there, on the
CPU with their reference operators, on random pictures. Prints one JSON line.
"""
import argparse
import contextlib
import copy
import importlib
import os
import sys
import types
import warnings

import torch

from measuring import add_arguments, answer, time_phases


def stand_in_for_missing_modules():
    """The code imports modules that only its downloads and its CUDA kernels use."""
    for name in ("requests", "torch.utils.cpp_extension"):
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = types.ModuleType(name)


def networks_of(args):
    from training.networks import Discriminator, Generator

    widths = {"channel_base": args.channel_base, "channel_max": args.channel_max}
    G = Generator(args.z_dim, 0, args.w_dim, args.resolution, 3,
                  mapping_kwargs={"num_layers": args.map_depth}, synthesis_kwargs=dict(widths))
    D = Discriminator(0, args.resolution, 3, **widths,
                      epilogue_kwargs={"mbstd_group_size": min(4, args.batch)})
    return G.train().requires_grad_(False), D.train().requires_grad_(False)


class Training:
    def __init__(self, args):
        from training.loss import StyleGAN2Loss

        self.G, self.D = networks_of(args)
        self.average = copy.deepcopy(self.G).eval()
        self.loss = StyleGAN2Loss("cpu", self.G.mapping, self.G.synthesis, self.D, r1_gamma=args.gamma)
        self.adam = {network: torch.optim.Adam(network.parameters(), 2.5e-3, (0.0, 0.99), 1e-8)
                     for network in (self.G, self.D)}
        self.real = torch.rand(args.batch, 3, args.resolution, args.resolution) * 2 - 1
        self.latents = (args.batch, args.z_dim)
        self.labels = torch.zeros(args.batch, 0)

    def phase(self, name, network, gain=1):
        """One phase as their training loop runs it."""
        def run():
            adam = self.adam[network]
            adam.zero_grad(set_to_none=True)
            network.requires_grad_(True)
            self.loss.accumulate_gradients(name, self.real, self.labels, torch.randn(self.latents),
                                           self.labels, True, gain)
            network.requires_grad_(False)
            for parameter in network.parameters():
                if parameter.grad is not None:
                    torch.nan_to_num(parameter.grad, nan=0, posinf=1e5, neginf=-1e5, out=parameter.grad)
            adam.step()
        return run

    def move_average(self):
        with torch.no_grad():
            for mean, now in zip(self.average.parameters(), self.G.parameters()):
                mean.copy_(now.lerp(mean, 0.999))
            for mean, now in zip(self.average.buffers(), self.G.buffers()):
                mean.copy_(now)

    def phases(self):
        return {"Gmain": self.phase("Gmain", self.G), "Greg": self.phase("Greg", self.G, 4),
                "Dmain": self.phase("Dmain", self.D), "Dreg": self.phase("Dreg", self.D, 16),
                "rest": self.move_average}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official", required=True, help="checkout of the official repository")
    parser.add_argument("--resolution", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--channel-base", type=int, default=16384)
    parser.add_argument("--channel-max", type=int, default=512)
    parser.add_argument("--map-depth", type=int, default=2)
    parser.add_argument("--z-dim", type=int, default=512)
    parser.add_argument("--w-dim", type=int, default=512)
    parser.add_argument("--gamma", type=float, default=1)
    add_arguments(parser, warm=1, steps=2)
    args = parser.parse_args()
    if not os.path.isfile(os.path.join(args.official, "training", "networks.py")):
        sys.exit(f"--official {args.official}: no training/networks.py there")
    sys.path.insert(0, args.official)
    stand_in_for_missing_modules()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        seconds = time_phases(Training(args).phases(), args)
    answer(phases=seconds)


if __name__ == "__main__":
    main()
