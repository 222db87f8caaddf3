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


class Accelerator:
    """What Hugging Face's Accelerate does with a launcher's environment, in small: one state for the process, made of LOCAL_RANK; a model
    wrapped, a loader cut among ranks, gradients accumulated without communication, values gathered, one process that prints."""

    def __init__(self, accumulate=1):
        import torch
        import torch.distributed as dist

        self.distributed = int(os.environ.get("LOCAL_RANK", -1)) != -1
        if self.distributed and not dist.is_initialized():
            dist.init_process_group("gloo", init_method="env://")
        self.index = dist.get_rank() if self.distributed else 0
        self.count = dist.get_world_size() if self.distributed else 1
        self.accumulate, self.micro_steps = accumulate, 0
        assert self.count == int(os.environ["WORLD_SIZE"]) and os.environ["MASTER_PORT"]
        torch.manual_seed(7)

    def prepare(self, model, loader):
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model), [batch[self.index :: self.count] for (batch,) in loader]

    def backward(self, model, loss):
        import contextlib

        self.micro_steps += 1
        self.steps_now = self.micro_steps % self.accumulate == 0
        with contextlib.nullcontext() if self.steps_now else model.no_sync():
            (loss() / self.accumulate).backward()

    def gather(self, tensor):
        import torch
        import torch.distributed as dist

        all_of_them = [torch.zeros_like(tensor) for _ in range(self.count)]
        dist.all_gather(all_of_them, tensor)
        return all_of_them

    def print(self, *words):
        if self.index == 0:
            print(*words)


def accelerate():
    """A training loop in Accelerate's style, with two micro-steps for each step."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    accelerator = Accelerator(accumulate=2)
    accelerator.print("main process of", accelerator.count)
    loader = DataLoader(TensorDataset(torch.randn(80, 4)), batch_size=4)
    model, batches = accelerator.prepare(torch.nn.Linear(4, 1), loader)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen, steps = torch.zeros(1), 0
    for x in batches:
        accelerator.backward(model, lambda: (model(x) - x.sum(1, keepdim=True)).square().mean())
        seen += len(x)
        if accelerator.steps_now:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    print("same weights", all(torch.equal(weights, other) for other in accelerator.gather(weights)))
    accelerator.print(f"steps {steps}, {sum(accelerator.gather(seen)).item():.0f} of 80 pictures")


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
    {f.__name__: f for f in (reduce, ddp, accelerate, dies, old)}[sys.argv[-1]]()
