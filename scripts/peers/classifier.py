# SPDX-License-Identifier: Apache-2.0
"""Trains a small classifier of labelled pictures and writes it as TorchScript, whose features compare pictures.

    python scripts/peers/classifier.py --data PICTURES.zip --out classifier.pt [--epochs 2 --seed 0]

PICTURES.zip has PNGs of one size and their classes, as `gantrain data pack` writes them. A tenth of the pictures
is held out, and the share of them that is classified right is printed. `gantrain metrics --metrics fd --detector
classifier.pt` compares by its 64 features: a Frechet distance that fits the data, and no FID.
"""
import argparse
import os
import sys

import torch

from packed import classes_of, load_pictures

BATCH = 128


def load(path):
    """uint8 [N, 3, H, W] and int64 [N] of the pictures of a zip that have classes."""
    classes = classes_of(path)
    if not classes:
        sys.exit(f"{path}: its dataset.json gives the pictures no classes")
    return load_pictures(path, classes), torch.tensor(list(classes.values()))


class Classifier(torch.nn.Module):
    """Pictures [N, 3, H, W] of 0 to 255 -> features [N, 64], or probabilities [N, classes]."""

    def __init__(self, classes):
        super().__init__()
        layer = lambda inside, outside, stride: (
            torch.nn.Conv2d(inside, outside, 3, stride, 1, bias=False), torch.nn.BatchNorm2d(outside), torch.nn.ReLU())
        self.maps = torch.nn.Sequential(*layer(3, 32, 1), *layer(32, 64, 2), *layer(64, 64, 2), *layer(64, 64, 2))
        self.classes = torch.nn.Linear(64, classes)

    def forward(self, x: torch.Tensor, return_features: bool = False) -> torch.Tensor:
        features = self.maps(x.float() / 127.5 - 1).mean((2, 3))
        return features if return_features else self.classes(features).softmax(1)


def accuracy(network, pictures, labels):
    with torch.no_grad():
        right = [(network(x).argmax(1) == y).sum().item() for x, y in zip(pictures.split(BATCH), labels.split(BATCH))]
    return sum(right) / len(labels)


def train(pictures, labels, epochs):
    network = Classifier(int(labels.max()) + 1)
    adam = torch.optim.Adam(network.parameters())
    rate = torch.optim.lr_scheduler.OneCycleLR(adam, 1e-2, total_steps=epochs * -(-len(labels) // BATCH))
    for epoch in range(epochs):
        network.train()
        for some in torch.randperm(len(labels)).split(BATCH):
            scores = network.classes(network(pictures[some], True))
            loss = torch.nn.functional.cross_entropy(scores, labels[some])
            adam.zero_grad()
            loss.backward()
            adam.step()
            rate.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}", flush=True)
    return network.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    pictures, labels = load(args.data)
    order = torch.randperm(len(labels))
    seen, kept = order[len(order) // 10:], order[:len(order) // 10]
    network = train(pictures[seen], labels[seen], args.epochs)
    print(f"accuracy {accuracy(network, pictures[kept], labels[kept]):.3f} of {len(kept)} pictures that were held out")
    torch.jit.script(network).save(args.out + ".part")
    os.replace(args.out + ".part", args.out)


if __name__ == "__main__":
    main()
