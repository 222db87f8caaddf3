# SPDX-License-Identifier: Apache-2.0
"""What `gantrain data pack` wrote: a zip of PNGs of one size, and their classes in dataset.json.

Only load_pictures() needs more than the standard library.
"""
import io
import json
import sys
import zipfile


def classes_of(path):
    """{name: class} of the pictures of a zip that have classes, by name; {} where they have none."""
    with zipfile.ZipFile(path) as archive:
        if "dataset.json" not in archive.namelist():
            return {}
        labels = json.loads(archive.read("dataset.json")).get("labels") or []
    if not all(isinstance(label, int) for _, label in labels):
        return {}  # values
    return dict(sorted(labels))


def load_pictures(path, names=None):
    """uint8 [N, 3, H, W] of the PNGs of a zip: of these names, or of all by name."""
    import numpy
    import PIL.Image
    import torch

    with zipfile.ZipFile(path) as archive:
        if names is None:
            names = sorted(name for name in archive.namelist() if name.endswith(".png"))
        pictures = [numpy.array(PIL.Image.open(io.BytesIO(archive.read(name))).convert("RGB")) for name in names]
    if not pictures:
        sys.exit(f"{path}: no PNG in it")
    return torch.from_numpy(numpy.stack(pictures)).permute(0, 3, 1, 2).contiguous()
