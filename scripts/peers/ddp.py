# SPDX-License-Identifier: Apache-2.0
"""DCGAN under PyTorch's DistributedDataParallel over gloo: seconds of its iterations.

    torchrun --standalone --nproc-per-node 2 scripts/peers/ddp.py --batch 32 --steps 10

The networks, optimizer and losses of gantrain's dcgan recipe, on random pictures, one thread a rank.
Rank 0 prints one JSON line. Without torchrun it is one rank and there is no DDP.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import softplus
from torch.nn.parallel import DistributedDataParallel


def up(inputs, outputs, stride=2, padding=1):
    convolution = nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(True)]


def down(inputs, outputs):
    convolution = nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2, True)]


def generator(latent, channels):
    layers = up(latent, channels, 1, 0)
    for _ in range(3):
        layers += up(channels, channels // 2)
        channels //= 2
    return nn.Sequential(*layers, nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(channels):
    layers = [nn.Conv2d(3, channels, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for _ in range(3):
        layers += down(channels, 2 * channels)
        channels *= 2
    return nn.Sequential(*layers, nn.Conv2d(channels, 1, 4, 1, 0, bias=False), nn.Flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32, help="of all ranks together")
    parser.add_argument("--channels", type=int, default=512, help="G's feature maps at 4x4")
    parser.add_argument("--d-channels", type=int, default=64, help="D's first feature maps")
    parser.add_argument("--steps", type=int, default=10, help="timed iterations")
    parser.add_argument("--warm", type=int, default=2, help="iterations before them")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if args.batch % world:
        parser.error(f"--batch {args.batch} is not a multiple of {world} ranks")
    each = args.batch // world
    torch.set_num_threads(args.threads)
    torch.manual_seed(rank)
    G, D = generator(100, args.channels), discriminator(args.d_channels)
    if world > 1:
        dist.init_process_group("gloo")
        G = DistributedDataParallel(G, broadcast_buffers=False)
        D = DistributedDataParallel(D, broadcast_buffers=False)
    adam = [torch.optim.Adam(n.parameters(), 2e-4, (0.5, 0.999), fused=True) for n in (G, D)]
    real = torch.rand(each, 3, 64, 64) * 2 - 1

    def step():
        D.requires_grad_(True)
        fake = G(torch.randn(each, 100, 1, 1))
        (softplus(-D(real)).mean() + softplus(D(fake.detach())).mean()).backward()
        adam[1].step()
        adam[1].zero_grad()
        D.requires_grad_(False)
        softplus(-D(fake)).mean().backward()
        adam[0].step()
        adam[0].zero_grad()

    seconds, cpu = [], []  # by the clock, and of the processor
    for i in range(args.warm + args.steps):
        start, cpu_start = time.monotonic(), time.process_time()
        step()
        if i >= args.warm:
            seconds.append(time.monotonic() - start)
            cpu.append(time.process_time() - cpu_start)
    if rank == 0:
        median = statistics.median(seconds)
        print(json.dumps({"peer": "pytorch-ddp", "torch": torch.__version__, "ranks": world,
                          "batch": args.batch, "threads": args.threads, "seconds": seconds,
                          "median": median, "cpu_median": statistics.median(cpu),
                          "images_per_second": args.batch / median}))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
