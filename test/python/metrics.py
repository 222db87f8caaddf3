# SPDX-License-Identifier: Apache-2.0
"""Random features, their metrics by numpy's plain formulas in float64, and detectors written by
PyTorch: metrics.py FOLDER.

Exit code 77 where numpy or torch is missing.
"""

import json
import pathlib
import sys

try:
    import numpy as np
    import torch
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)


def root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(np.sqrt(np.maximum(values, 0))) @ vectors.T


def fid(reals, fakes):
    (m, s), (n, t) = [(x.mean(0), np.cov(x.T, bias=True)) for x in (reals, fakes)]
    of_reals = root(s)
    inner = np.linalg.eigvalsh(of_reals @ t @ of_reals)
    return ((m - n) ** 2).sum() + np.trace(s + t) - 2 * np.sqrt(np.maximum(inner, 0)).sum()


def kid(reals, fakes):
    """Of sets so small that every subset is the whole of them."""
    size = len(reals)
    assert size == len(fakes) <= 1000

    def kernel(a, b):
        return (a @ b.T / a.shape[1] + 1) ** 3

    def others(square):
        return square.sum() - np.trace(square)

    within = others(kernel(reals, reals)) + others(kernel(fakes, fakes))
    return within / (size * (size - 1)) - 2 * kernel(reals, fakes).mean()


def distances(a, b):
    return np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(-1))


def radii(x, k):
    return np.sort(distances(x, x), axis=1)[:, k]


def manifolds(reals, fakes):
    between = distances(reals, fakes)
    near = radii(reals, 5)[:, None]
    return {
        "precision": (between <= radii(reals, 3)[:, None]).any(0).mean(),
        "recall": (between <= radii(fakes, 3)[None, :]).any(1).mean(),
        "density": (between < near).sum() / (5 * len(fakes)),
        "coverage": (between < near).any(1).mean(),
    }


def inception_score(p):
    scores = []
    for i in range(10):
        part = p[i * len(p) // 10 : (i + 1) * len(p) // 10]
        scores.append(np.exp((part * (np.log(part) - np.log(part.mean(0)))).sum(1).mean()))
    return {"is": np.mean(scores), "is_std": np.std(scores)}


class Published(torch.nn.Module):
    """Called as the published detectors are."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3, stride=2)
        self.norm = torch.nn.BatchNorm2d(16)
        self.output = torch.nn.Linear(16, 10)

    def forward(self, img, return_features: bool = False, use_fp16: bool = False, no_output_bias: bool = False):
        x = torch.relu(self.norm(self.conv((img.to(torch.float32) - 128) / 128))).mean([2, 3])
        if return_features:
            return x
        x = torch.nn.functional.linear(x, self.output.weight) if no_output_bias else self.output(x)
        return torch.softmax(x, dim=1)


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 12, 4, stride=4)

    def forward(self, x):
        return self.conv(x / 255).tanh().mean([2, 3])


def write_features(folder, name, reals, fakes, dtype):
    np.save(folder / f"{name}-real.npy", reals.astype(dtype))
    np.save(folder / f"{name}-fake.npy", fakes.astype(dtype))
    reals, fakes = reals.astype(dtype).astype(np.float64), fakes.astype(dtype).astype(np.float64)
    expected = {"fid": fid(reals, fakes), **manifolds(reals, fakes)}
    if len(reals) == len(fakes):
        expected["kid"] = kid(reals, fakes)
    return expected


def main():
    folder = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(5)
    torch.manual_seed(0)
    mixing = rng.normal(size=(24, 24))
    sets = {
        "plain": (rng.normal(size=(300, 24)), rng.normal(size=(300, 24)) * 1.2 + 0.1, np.float32),
        "mixed": (rng.normal(size=(400, 24)) @ mixing, rng.normal(size=(250, 24)) @ mixing, np.float64),
        "few": (rng.normal(size=(30, 96)), rng.normal(size=(30, 96)) + 0.3, np.float64),
    }
    expected = {name: write_features(folder, name, *values) for name, values in sets.items()}
    scores = np.exp(rng.normal(size=(105, 7)) * 2)
    probabilities = (scores / scores.sum(1, keepdims=True)).astype(np.float32)
    np.save(folder / "probs.npy", probabilities)
    expected["probs"] = inception_score(probabilities.astype(np.float64))
    for name, network in (("published", Published()), ("plain", Plain())):
        torch.jit.script(network.eval()).save(str(folder / f"{name}.pt"))
    torch.jit.trace(Plain().eval(), torch.zeros(1, 3, 16, 16)).save(str(folder / "traced.pt"))
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
