# SPDX-License-Identifier: Apache-2.0
"""DCGAN under PyTorch's DistributedDataParallel over gloo: seconds of its iterations.

    torchrun --standalone --nproc-per-node 2 scripts/peers/ddp.py --batch 32 --steps 10

The networks, optimizer and losses of gantrain's dcgan recipe, on random pictures, one thread a rank.
Rank 0 prints one JSON line. Without torchrun it is one rank and there is no DDP.
"""
import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from dcgan import Training, add_networks, discriminator, generator, random_pictures
from measuring import add_arguments, answer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_networks(parser)
    add_arguments(parser, warm=2, steps=10)
    args = parser.parse_args()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if args.batch % world:
        parser.error(f"--batch {args.batch} is not a multiple of {world} ranks")
    torch.set_num_threads(args.threads)
    torch.manual_seed(rank)
    G, D = generator(args.latent, args.channels), discriminator(args.d_channels)
    if world > 1:
        dist.init_process_group("gloo")
        G = DistributedDataParallel(G, broadcast_buffers=False)
        D = DistributedDataParallel(D, broadcast_buffers=False)
    training = Training(G, D, args.latent, random_pictures(args.batch // world))

    seconds, cpu = [], []  # by the clock, and of the processor
    for i in range(args.warm + args.steps):
        start, cpu_start = time.monotonic(), time.process_time()
        training.d()
        training.g()
        if i >= args.warm:
            seconds.append(time.monotonic() - start)
            cpu.append(time.process_time() - cpu_start)
    if rank == 0:
        median = statistics.median(seconds)
        answer(peer="pytorch-ddp", ranks=world, batch=args.batch, threads=args.threads,
               seconds=seconds, median=median, cpu_median=statistics.median(cpu),
               images_per_second=args.batch / median)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
