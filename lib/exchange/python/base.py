# SPDX-License-Identifier: Apache-2.0
"""A generator that was trained with gantrain, as plain PyTorch.

It needs torch alone. As a module:

    from model import load_generator, latents
    generator = load_generator()                # the folder of this file
    pictures = generator(latents([0, 1, 2], generator.z_dim))   # [3, C, H, W], about in [-1, 1]

As a program:

    python model.py --seed 7 -o seed7.png
    python model.py --self-test                 # does it draw what gantrain drew?
    python model.py --onnx model.onnx           # needs the packages onnx and onnxscript
"""
import argparse
import ast
import csv
import json
import math
import os
import random
import struct
import sys
import zlib

import torch
from torch import nn
from torch.nn import functional as F

FOLDER = os.path.dirname(os.path.abspath(__file__))
EPSILON = 1e-8  # of all norms but batch norm


def named(children):
    """A module with these children, whose names may begin with a digit."""
    module = nn.Module()
    for name, child in children:
        module.add_module(name, child)
    return module


def pixel_norm(x):
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + EPSILON)


def leaky_relu(x):
    return F.leaky_relu(x, 0.2)


def truncated(ws, average, psi, cutoff):
    """Pulls the latents of the first `cutoff` layers (None: all) to their average."""
    if psi == 1:
        return ws
    layers = ws.shape[1]
    first = layers if cutoff is None else min(max(cutoff, 0), layers)
    return torch.cat([average + (ws[:, :first] - average) * psi, ws[:, first:]], 1)


def noise_of(mode, stored):
    """The noise of a layer: as it is stored, drawn afresh by torch, or none."""
    if mode == "none":
        return torch.zeros_like(stored)
    return torch.randn_like(stored) if mode == "random" else stored


def one_hot(label, classes, dtype):
    """[N, classes] of labels [N]: 1 where the class is the label; of vectors, themselves."""
    return label.to(dtype) if label.dim() == 2 else F.one_hot(label, classes).to(dtype)


def size_of(resolution):
    """Height and width of 64 or "256x128" (WIDTHxHEIGHT)."""
    if isinstance(resolution, str):
        width, height = resolution.split("x")
        return int(height), int(width)
    return resolution, resolution
