# SPDX-License-Identifier: Apache-2.0
"""DCGAN under PyTorch: seconds of its two phases.

The networks, optimizer and losses of gantrain's dcgan recipe, on random pictures of 64 pixels.
Prints one JSON line.
"""
import argparse

import torch
from torch import nn
from torch.nn.functional import softplus

from measuring import add_arguments, answer, begin, measure, memory


def up(inputs, outputs, stride=2, padding=1):
    convolution = nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(True)]


def down(inputs, outputs):
    convolution = nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2, True)]


def doublings(resolution):
    """From 4 pixels to a power of two."""
    return resolution.bit_length() - 3


def generator(latent, channels, resolution=64):
    layers = up(latent, channels, 1, 0)
    for _ in range(doublings(resolution) - 1):
        layers += up(channels, channels // 2)
        channels //= 2
    return nn.Sequential(*layers, nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(channels, resolution=64):
    layers = [nn.Conv2d(3, channels, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for _ in range(doublings(resolution) - 1):
        layers += down(channels, 2 * channels)
        channels *= 2
    return nn.Sequential(*layers, nn.Conv2d(channels, 1, 4, 1, 0, bias=False), nn.Flatten())


class Training:
    """One iteration is d() and then g(), which uses the fake pictures of d() again."""

    def __init__(self, G, D, latent, real):
        self.G, self.D, self.latent, self.real = G, D, latent, real
        self.adam_g, self.adam_d = (
            torch.optim.Adam(n.parameters(), 2e-4, (0.5, 0.999), fused=True) for n in (G, D))
        self.fake = None

    def d(self):
        self.D.requires_grad_(True)
        self.fake = self.G(torch.randn(len(self.real), self.latent, 1, 1, device=self.real.device))
        loss = softplus(-self.D(self.real)).mean() + softplus(self.D(self.fake.detach())).mean()
        loss.backward()
        self.adam_d.step()
        self.adam_d.zero_grad()

    def g(self):
        self.D.requires_grad_(False)
        softplus(-self.D(self.fake)).mean().backward()
        self.adam_g.step()
        self.adam_g.zero_grad()


def add_networks(parser):
    parser.add_argument("--batch", type=int, default=32, help="of all ranks together")
    parser.add_argument("--latent", type=int, default=100)
    parser.add_argument("--channels", type=int, default=512, help="G's feature maps at 4x4")
    parser.add_argument("--d-channels", type=int, default=64, help="D's first feature maps")


def random_pictures(count):
    return torch.rand(count, 3, 64, 64) * 2 - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_networks(parser)
    add_arguments(parser, warm=2, steps=10)
    parser.add_argument("--layout", choices=["contiguous", "channels-last"], default="contiguous")
    args = parser.parse_args()
    begin(args)
    layout = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}[args.layout]
    G = generator(args.latent, args.channels).to(args.device, memory_format=layout)
    D = discriminator(args.d_channels).to(args.device, memory_format=layout)
    real = random_pictures(args.batch).to(args.device, memory_format=layout)
    training = Training(G, D, args.latent, real)
    times = measure({"D": training.d, "G": training.g}, {}, args)
    answer(**times, **memory(args))


if __name__ == "__main__":
    main()
