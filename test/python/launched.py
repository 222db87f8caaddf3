# SPDX-License-Identifier: Apache-2.0
"""A training script as users have them, for the tests of `gantrain launch`: launched.py MODE."""

import os
import sys


def group():
    import torch.distributed as dist

    dist.init_process_group("gloo")
    return dist


def reduce():
    """The sum over ranks, through the environment's rendezvous."""
    import torch

    dist = group()
    total = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(total)
    print(f"sum {total.item():.0f} of {dist.get_world_size()} attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}")
    dist.destroy_process_group()


def ddp():
    """Ten steps of DistributedDataParallel with a data loader's worker, after which all ranks have the same weights."""
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset

    dist = group()
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(80, 4)), batch_size=8, num_workers=1)
    for (x,) in loader:
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    all_weights = [torch.zeros_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(all_weights, weights)
    print("same weights", all(torch.equal(weights, other) for other in all_weights))
    dist.destroy_process_group()


def dies():
    """Rank 1 fails while the others wait for it in an all-reduce."""
    import torch
    from torch.distributed.elastic.multiprocessing.errors import record

    @record
    def main():
        dist = group()
        dist.barrier()
        if dist.get_rank() == 1:
            raise ValueError("the loss is not a number")
        dist.all_reduce(torch.zeros(1))

    main()


def old():
    """A script of torch.distributed.launch's days."""
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("mode")
    args = parser.parse_args()
    print("local rank", args.local_rank, os.environ["LOCAL_RANK"])


if __name__ == "__main__":
    {f.__name__: f for f in (reduce, ddp, dies, old)}[sys.argv[-1]]()
