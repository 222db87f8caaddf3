# SPDX-License-Identifier: Apache-2.0
"""Seconds from the start of torchrun to the first all-reduce of its ranks over gloo.

    torchrun --standalone --nproc-per-node 8 scripts/peers/launch.py --started SECONDS

SECONDS is the reading of the monotonic clock when torchrun was started. Rank 0 prints one JSON line.
"""
import argparse
import time

import torch
import torch.distributed as dist

from measuring import answer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--started", type=float, required=True)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    ones = torch.ones(1)
    dist.all_reduce(ones)
    seconds = time.monotonic() - args.started
    assert ones.item() == dist.get_world_size()
    if dist.get_rank() == 0:
        answer(seconds=seconds, ranks=dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
