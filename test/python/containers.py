# SPDX-License-Identifier: Apache-2.0
"""containers.py FOLDER: writes pictures in every container with Python's own libraries, and for each
what must be read: index.txt has a line "PATH SIDE CHANNELS" for each container, PATH.pixels the raw
pixels of all pictures in their order, PATH.classes the name of each picture's class."""
import gzip
import io
import json
import pickle
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

root = Path(sys.argv[1])
random = np.random.RandomState(7)
index = []


def expect(path, pixels, classes):
    pixels = np.ascontiguousarray(pixels)
    index.append(f"{path} {pixels.shape[1]} {pixels.shape[3]}\n")
    (root / f"{path}.pixels").write_bytes(pixels.tobytes())
    (root / f"{path}.classes").write_text("".join(f"{name}\n" for name in classes))


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


def add(tar, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def string(text):  # of Python 2
    text = text.encode() if isinstance(text, str) else text
    return b"U" + bytes([len(text)]) + text if len(text) < 256 else b"T" + struct.pack("<i", len(text)) + text


def python2_batch(pixels, labels):
    """The form that CIFAR's authors published: protocol 2 of Python 2, with numpy's reduce."""
    count, width = pixels.shape
    array = (b"cnumpy.core.multiarray\n_reconstruct\nq\x06cnumpy\nndarray\nq\x07K\x00\x85q\x08" + string("b")
             + b"\x87R(K\x01M" + struct.pack("<H", count) + b"M" + struct.pack("<H", width)
             + b"\x86cnumpy\ndtype\n" + string("u1") + b"K\x00K\x01\x87R(K\x03" + string("|")
             + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89" + string(pixels.tobytes()) + b"tb")
    return (b"\x80\x02}q\x01(" + string("batch_label") + string("training batch 1 of 5") + string("labels")
            + b"]q\x05(" + b"".join(b"K" + bytes([label]) for label in labels) + b"e" + string("data")
            + array + string("filenames") + b"](" + string("a.png") + b"eu.")


names = ["0/ä picture.png", "0/ordinary.png", "1/" + "long " * 40 + ".png", "1/z.png"]
pictures = random.randint(0, 256, (4, 32, 32, 3), np.uint8)
folders = ["0", "0", "1", "1"]
files = {name: png(pixels) for name, pixels in zip(names, pictures)}
files["dataset.json"] = json.dumps({"labels": [[name, 1 - int(c)] for name, c in zip(names, folders)]}).encode()
swapped = ["1", "1", "0", "0"]

order = np.argsort(np.array([name.encode() for name in names], dtype=object))
for path, form in [("pax.tar", tarfile.PAX_FORMAT), ("gnu.tar", tarfile.GNU_FORMAT)]:
    with tarfile.open(root / path, "w", format=form) as tar:
        for name, content in files.items():
            add(tar, name, content)
    expect(path, pictures[order], [swapped[i] for i in order])
for ending in ["gz", "xz", "bz2"]:
    path = f"packed.tar.{ending}"
    with tarfile.open(root / path, f"w:{ending}") as tar:
        for name, content in files.items():
            add(tar, name, content)
    expect(path, pictures[order], [swapped[i] for i in order])
with zipfile.ZipFile(root / "packed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    for name, content in files.items():
        archive.writestr(name, content)
expect("packed.zip", pictures[order], [swapped[i] for i in order])

(root / "shards").mkdir()
for shard in range(2):
    with tarfile.open(root / f"shards/{shard:03}.tar", "w") as tar:
        for i in range(2 * shard, 2 * shard + 2):
            add(tar, f"{i:06}.png", files[names[i]])
            add(tar, f"{i:06}.cls", str(3 * i).encode())
expect("shards", pictures, [str(3 * i) for i in range(4)])

labels = [3, 0, 9, 3]
rows = pictures.transpose(0, 3, 1, 2).reshape(4, 3072)
kinds = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
(root / "cifar-10-batches-bin").mkdir()
binary = b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, rows))
(root / "cifar-10-batches-bin/data_batch_1.bin").write_bytes(binary)
(root / "cifar-10-batches-bin/batches.meta.txt").write_text("\n".join(kinds) + "\n\n")
expect("cifar-10-batches-bin", pictures, [kinds[label] for label in labels])
meta = pickle.dumps({"num_cases_per_batch": 4, "label_names": kinds, "num_vis": 3072}, 2)
for path, batch in [("cifar-10-python.tar.gz", python2_batch(rows, labels)),
                    ("cifar-10-python4.tar.gz", pickle.dumps({"labels": labels, "data": rows}, 4))]:
    with tarfile.open(root / path, "w:gz") as tar:
        add(tar, "cifar-10-batches-py/data_batch_1", batch)
        add(tar, "cifar-10-batches-py/batches.meta", meta)
        add(tar, "cifar-10-batches-py/readme.html", b"text")
    expect(path, pictures, [kinds[label] for label in labels])

digits = random.randint(0, 256, (5, 28, 28, 1), np.uint8)
(root / "mnist").mkdir()
with gzip.open(root / "mnist/train-images-idx3-ubyte.gz", "wb") as out:
    out.write(struct.pack(">4i", 0x803, 5, 28, 28) + digits.tobytes())
with gzip.open(root / "mnist/train-labels-idx1-ubyte.gz", "wb") as out:
    out.write(struct.pack(">2i", 0x801, 5) + bytes([4, 0, 1, 9, 2]))
expect("mnist", digits, [4, 0, 1, 9, 2])

(root / "forms").mkdir()
grey = random.randint(0, 256, (8, 8), np.uint8)
wide = random.randint(0, 65536, (8, 8)).astype(np.uint16)
color = pictures[0, :8, :8]
few = Image.fromarray(color).quantize(7)
forms = {
    "a1.png": Image.fromarray(grey).convert("1"),
    "b8.png": Image.fromarray(grey),
    "c16.png": Image.fromarray(wide),
    "dla.png": Image.merge("LA", [Image.fromarray(grey), Image.fromarray(grey.T.copy())]),
    "ergba.png": Image.merge("RGBA", [*Image.fromarray(color).split(), Image.fromarray(grey)]),
    "fpalette.png": Image.fromarray(color).quantize(16),
    "glossless.webp": Image.fromarray(color),
    "htransparent.png": few,
}
options = {"htransparent.png": {"transparency": bytes([0, 255, 128])}, "glossless.webp": {"lossless": True}}
seen = []
for name, image in forms.items():
    image.save(root / "forms" / name, **options.get(name, {}))
    if name == "htransparent.png":
        image = Image.open(root / "forms" / name)
    if name == "c16.png":
        values = np.rint(wide.astype(np.float64) * 255 / 65535).astype(np.uint8)
        image = Image.fromarray(values)
    rgb = np.asarray(image.convert("RGBA")).astype(np.int64)
    alpha = rgb[..., 3:]
    seen.append(((rgb[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8))
expect("forms", np.stack(seen), [])
(root / "index.txt").write_text("".join(index))
