# SPDX-License-Identifier: Apache-2.0
"""Directions in w by numpy's plain formulas in float64.

directions.py FIXTURES: writes FIXTURES/directions.safetensors, of the networks stored beside it.
directions.py MODEL DIRECTIONS.npz: checks a file of `gantrain edit` against the model's weights
(StyleGAN2 and 3).

Exit code 77 where numpy or safetensors is missing.
"""

import json
import pathlib
import sys

try:
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

SAMPLES = 600
COUNT = 8


def axes(matrix, count):
    """Eigenvectors as rows, the largest eigenvalue first; no more than the matrix has rank."""
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1], vectors.T[::-1]
    count = min(count, int((values > 1e-12 * values[0]).sum()))
    values, vectors = values[:count], vectors[:count]
    largest = np.abs(vectors).argmax(1)
    return values, vectors * np.sign(vectors[np.arange(count), largest])[:, None]


def sefa(weights, count):
    """Shen and Zhou 2021: A^T A of the weights [out, w_dim], rows of unit length."""
    rows = np.concatenate([w.astype(np.float64) for w in weights])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(lengths > 0, lengths, 1)
    return axes(rows.T @ rows, count)


def ganspace(w, count):
    """Haerkoenen et al. 2020: principal components of w [N, w_dim]; variances and directions."""
    return (*axes(np.cov(w.T), count), w.mean(0))


def pixel_norm(x):
    return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-8)


def latents(samples, z_dim):
    return np.stack([np.random.RandomState(seed).randn(z_dim) for seed in range(samples)])


def mapped(tensors, samples, lr_multiplier=0.01):
    """w of seeds 0, 1, ... by the mapping network of StyleGAN2 and 3; classes in turn."""

    def dense(x, name, lr):
        weight = tensors[f"mapping.{name}.weight"].astype(np.float64)
        bias = tensors[f"mapping.{name}.bias"].astype(np.float64)
        return x @ weight.T * (lr / np.sqrt(weight.shape[1])) + bias * lr

    inputs = tensors["mapping.fc0.weight"].shape[1]
    classes = 0
    if "mapping.embed.weight" in tensors:
        classes = tensors["mapping.embed.weight"].shape[1]
        inputs -= tensors["mapping.embed.weight"].shape[0]
    x = pixel_norm(latents(samples, inputs))
    if classes > 0:
        labels = np.eye(classes)[np.arange(samples) % classes]
        x = np.concatenate([x, pixel_norm(dense(labels, "embed", 1))], 1)
    layer = 0
    while f"mapping.fc{layer}.weight" in tensors:
        x = dense(x, f"fc{layer}", lr_multiplier)
        x = np.where(x > 0, x, 0.2 * x) * np.sqrt(2)
        layer += 1
    return x


def mapped_by_stylegan1(tensors, samples):
    """The same by StyleGAN 1's official variables."""
    x = pixel_norm(latents(samples, tensors["G_mapping/Dense0/weight"].shape[0]))
    layer = 0
    while f"G_mapping/Dense{layer}/weight" in tensors:
        weight = tensors[f"G_mapping/Dense{layer}/weight"].astype(np.float64)
        x = x @ weight * (0.01 * np.sqrt(2 / weight.shape[0]))
        x = x + 0.01 * tensors[f"G_mapping/Dense{layer}/bias"].astype(np.float64)
        x = np.where(x > 0, x, 0.2 * x)
        layer += 1
    return x


def network(folder, name):
    """Tensors of a stored network, without "G/"."""
    stored = load_file(folder / f"{name}.safetensors")
    return {key.removeprefix("G/"): value for key, value in stored.items()}


def of_stylegan2(tensors):
    """One style weight for each layer of w: the convolutions', then the last toRGB's."""
    names = ["b4.conv1"]
    side = 8
    while f"synthesis.b{side}.conv0.affine.weight" in tensors:
        names += [f"b{side}.conv0", f"b{side}.conv1"]
        side *= 2
    names.append(f"b{side // 2}.torgb")
    return [tensors[f"synthesis.{name}.affine.weight"] for name in names]


def of_stylegan3(tensors):
    names = {key.split(".")[1] for key in tensors if key.startswith("synthesis.L")}
    names = ["input"] + sorted(names, key=lambda name: int(name[1:].split("_")[0]))
    return [tensors[f"synthesis.{name}.affine.weight"] for name in names]


def of_stylegan1(tensors):
    names = ["4x4/Const", "4x4/Conv"]
    side = 8
    while f"G_synthesis/{side}x{side}/Conv0_up/StyleMod/weight" in tensors:
        names += [f"{side}x{side}/Conv0_up", f"{side}x{side}/Conv1"]
        side *= 2
    return [tensors[f"G_synthesis/{name}/StyleMod/weight"].T for name in names]


def write_fixture(folder):
    out = {}

    def add(name, values, vectors, mean=None):
        out[f"{name}/values"] = np.ascontiguousarray(values)
        out[f"{name}/vectors"] = np.ascontiguousarray(vectors)
        if mean is not None:
            out[f"{name}/mean"] = mean

    for name, weights_of in (
        ("sg2_uncond32_G", of_stylegan2),
        ("sg3_t16_c3_G", of_stylegan3),
        ("stylegan1_16_params", of_stylegan1),
    ):
        weights = weights_of(network(folder, name))
        add(f"sefa/{name}/all", *sefa(weights, COUNT))
        add(f"sefa/{name}/2-4", *sefa(weights[2:5], COUNT))
        add(f"sefa/{name}/0", *sefa(weights[:1], COUNT))  # of StyleGAN3: rank 4
    for name in ("sg2_uncond32_G", "sg2_cond32_G", "sg3_t16_c3_G"):
        add(f"ganspace/{name}", *ganspace(mapped(network(folder, name), SAMPLES), COUNT))
    of_first = mapped_by_stylegan1(network(folder, "stylegan1_16_params"), SAMPLES)
    add("ganspace/stylegan1_16_params", *ganspace(of_first, COUNT))

    # Rank 3 in 6 dimensions, rows of zeros, fewer directions than are asked for.
    random = np.random.RandomState(1)
    low = random.randn(9, 3) @ random.randn(3, 6)
    low[4] = 0
    out["low/weight"] = low.astype(np.float32)
    add("low", *sefa([out["low/weight"]], 10))
    full = random.randn(20, 6).astype(np.float32)
    out["full/weight"] = full
    add("full", *sefa([full[:7], full[7:]], 10))
    rows = (random.randn(500, 6) @ random.randn(6, 6) + 100).astype(np.float32)
    out["rows/rows"] = rows
    add("rows", *ganspace(rows.astype(np.float64), 10))
    few = rows[:3]
    out["few/rows"] = few
    add("few", *ganspace(few.astype(np.float64), 10))  # three points: rank 2
    save_file(out, folder / "directions.safetensors", metadata={"kind": "directions"})


def check(model, npz):
    stored = np.load(npz)
    about = json.loads(str(stored["about"]))
    beside = json.loads(npz.with_suffix(".json").read_text())
    tensors = load_file(model)
    with safe_open(model, "np") as file:
        config = json.loads(file.metadata()["gantrain.model"])
    of_layers = of_stylegan3(tensors) if config["recipe"] == "stylegan3" else of_stylegan2(tensors)
    vectors, lengths = stored["directions"], stored["lengths"]
    assert about["layers"] and max(about["layers"]) < about["num_ws"] == len(of_layers), about
    if about["method"] == "sefa":
        assert [tensors[name].tobytes() for name in about["weights"]] == [
            of_layers[layer].tobytes() for layer in about["layers"]
        ]
        values, expected = sefa([tensors[name] for name in about["weights"]], len(vectors))
        assert (lengths == 1).all()
    else:
        lr = config.get("mapping_kwargs", {}).get("lr_multiplier", 0.01)
        w = mapped(tensors, about["samples"], lr)
        values, expected, mean = ganspace(w, len(vectors))
        np.testing.assert_allclose(lengths, np.sqrt(values), rtol=1e-5)
        np.testing.assert_allclose(stored["mean"], mean, atol=1e-5 * np.abs(mean).max())
        np.testing.assert_allclose(beside["mean"], stored["mean"])
    assert vectors.dtype == np.float32 and vectors.shape == expected.shape
    assert (vectors[np.arange(len(vectors)), np.abs(vectors).argmax(1)] > 0).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(stored["values"], values, rtol=1e-5)
    signs = np.sign((vectors * expected).sum(1))[:, None]
    np.testing.assert_allclose(vectors, expected * signs, atol=1e-5)
    assert [direction["number"] for direction in beside["directions"]] == list(range(len(vectors)))
    np.testing.assert_array_equal([d["vector"] for d in beside["directions"]], vectors)
    assert {key: beside[key] for key in about} == about
    print(f"{about['method']}: {len(vectors)} directions as numpy finds them")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_fixture(pathlib.Path(sys.argv[1]))
    else:
        check(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
