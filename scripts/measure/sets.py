# SPDX-License-Identifier: Apache-2.0
"""Small sets of pictures of 32 pixels, and the larger ones that the models to begin with are trained on.

    python3 scripts/measure/sets.py --gantrain build/gantrain --root ROOT --out DIR

Four of each kind of file are written as packed archives (gantrain data pack):
    DIR/NAME.zip        the small set, which is trained on
    DIR/NAME-test.zip   pictures of the same kind that nothing is trained on, to measure by
    DIR/BASE-base.zip   what the model to begin with is trained on: none of the above
    DIR/BASE-base-test.zip
ROOT holds unpacked Debian packages (dpkg-deb -x FILE.deb ROOT) or is /:
    dataset-fashion-mnist, faenza-icon-theme, gnome-icon-theme, oxygen-icon-theme
Standard library alone. What is there already is left as it is.
"""
import argparse
import gzip
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import zlib

SIZE = 32
# name of the small set: the base that its model begins at, in the order of the tables
SETS = {"shapes": "shapes", "fashion": "fashion", "faenza": "icons", "gnome": "icons"}
SMALL = {"shapes": 200, "fashion": 200, "faenza": 250, "gnome": 200}
NEW_SHAPES = (4, 6)  # star and heart, by the order of synth:shapes' classes
NEW_CLOTHES = (1, 8)  # trousers and bags, by Fashion-MNIST's labels
THEMES = {"faenza": "Faenza/*/32/*.png", "gnome": "gnome/32x32/*/*.png", "icons": "oxygen/base/32x32/*/*.png"}
SHAPE_SHEETS = 7  # of 64 pictures of each of the ten shapes
CLOTHES_OF_A_CLASS = 350
MOST_TESTS = 400  # pictures of a set to measure by
BASE_TESTS = 300  # of a base
MOST_OF_BASE = 2000  # of what a model to begin with is trained on


def png(width, height, channels, pixels):
    """Returns the bytes of a PNG of 8 bits, from bytes [height, width, channels]."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    row = width * channels
    lines = b"".join(b"\0" + pixels[y * row:(y + 1) * row] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) +
            chunk(b"IEND", b""))


def paeth(left, up, corner):
    estimate = left + up - corner
    to_left, to_up, to_corner = abs(estimate - left), abs(estimate - up), abs(estimate - corner)
    if to_left <= to_up and to_left <= to_corner:
        return left
    return up if to_up <= to_corner else corner


def unfiltered(kind, line, before, step):
    """Returns a row of a PNG without its filter (PNG specification, section 9)."""
    out = bytearray(line)
    for i, value in enumerate(line):
        left = out[i - step] if i >= step else 0
        corner = before[i - step] if i >= step else 0
        add = (0, left, before[i], (left + before[i]) // 2, 0)[kind] if kind < 4 else paeth(left, before[i], corner)
        out[i] = (value + add) & 255
    return bytes(out)


def pixels_of(content):
    """Returns (width, height, rows) of an RGB PNG of 8 bits without interlacing."""
    width, height, depth, colour = struct.unpack(">IIBB", content[16:26])
    assert depth == 8 and colour == 2, "an RGB PNG of 8 bits is expected"
    at, data = 8, b""
    while at < len(content):
        length, = struct.unpack(">I", content[at:at + 4])
        if content[at + 4:at + 8] == b"IDAT":
            data += content[at + 8:at + 8 + length]
        at += 12 + length
    data = zlib.decompress(data)
    row, rows, before = 3 * width, [], bytes(3 * width)
    for y in range(height):
        begin = y * (row + 1)
        before = unfiltered(data[begin], data[begin + 1:begin + 1 + row], before, 3)
        rows.append(before)
    return width, height, rows


def shape_sheet(gantrain, seed):
    """Returns the rows of a sheet of reals that a run of one batch leaves: 64 pictures of each shape."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        subprocess.run([*gantrain, "train", "--preset", "stylegan2-tiny", "--cond", "on", "--resolution", str(SIZE),
                        "--kimg", "0.016", "--metrics", "none", "--device", "cpu", "--nproc", "1", "--threads", "1",
                        "--seed", str(seed), "--set", "stylegan2.channel_max=8", "--set", "samples.rows=10",
                        "--set", "samples.columns=64", "--run-dir", str(run), "-q"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return pixels_of((run / "samples/reals.png").read_bytes())[2]


def shapes(gantrain):
    """Yields (class, PNG) of the built-in pictures."""
    for seed in range(SHAPE_SHEETS):
        rows = shape_sheet(gantrain, seed)
        for kind in range(10):
            for column in range(64):
                cut = slice(3 * SIZE * column, 3 * SIZE * (column + 1))
                yield kind, png(SIZE, SIZE, 3, b"".join(row[cut] for row in rows[SIZE * kind:SIZE * (kind + 1)]))


def clothes(root):
    """Yields (class, PNG) of Fashion-MNIST's training pictures, 28 pixels in the middle of 32."""
    folder = root / "usr/share/datasets/fashion-mnist"
    pictures = gzip.decompress((folder / "train-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((folder / "train-labels-idx1-ubyte.gz").read_bytes())[8:]
    border = bytes(2 * SIZE)
    taken = [0] * 10
    for i, label in enumerate(labels):
        if taken[label] < CLOTHES_OF_A_CLASS:
            taken[label] += 1
            rows = [pictures[784 * i + 28 * y:784 * i + 28 * (y + 1)] for y in range(28)]
            yield label, png(SIZE, SIZE, 1, border + b"".join(b"\0\0" + row + b"\0\0" for row in rows) + border)


def icons(root, theme):
    """Returns the icons of a theme in a random order that is always the same. Links, and equal files,
    count once."""
    files = sorted((root / "usr/share/icons").glob(THEMES[theme]))
    contents = list(dict.fromkeys(file.read_bytes() for file in files if not file.is_symlink()))
    random.Random(0).shuffle(contents)
    return contents


def pack(gantrain, pictures, to):
    """Writes the archive of these PNGs."""
    if to.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        for i, content in enumerate(pictures):
            (pathlib.Path(folder) / f"{i:05}.png").write_bytes(content)
        part = to.with_suffix(".part.zip")
        subprocess.run([*gantrain, "data", "pack", folder, "-o", str(part), "--resolution", str(SIZE), "--png-level",
                        "9", "--force", "-q"], check=True)
        shutil.move(part, to)


def split(pictures, new):
    """Returns those of the new classes, and all others, in a random order that is always the same."""
    apart = {True: [], False: []}
    for kind, content in pictures:
        apart[kind in new].append(content)
    for part in apart.values():
        random.Random(0).shuffle(part)
    return apart[True], apart[False]


def make(gantrain, root, out):
    out.mkdir(parents=True, exist_ok=True)
    wanted = [f"{name}{end}.zip" for name in SETS for end in ("", "-test")]
    wanted += [f"{base}-base{end}.zip" for base in set(SETS.values()) for end in ("", "-test")]
    if all((out / name).exists() for name in wanted):
        return
    parts = {"shapes": split(shapes(gantrain), NEW_SHAPES), "fashion": split(clothes(root), NEW_CLOTHES),
             "faenza": (icons(root, "faenza"), icons(root, "icons")), "gnome": (icons(root, "gnome"), None)}
    for name, (new, base) in parts.items():
        pack(gantrain, new[:SMALL[name]], out / f"{name}.zip")
        pack(gantrain, new[SMALL[name]:][:MOST_TESTS], out / f"{name}-test.zip")
        if base:
            pack(gantrain, base[BASE_TESTS:][:MOST_OF_BASE], out / f"{SETS[name]}-base.zip")
            pack(gantrain, base[:BASE_TESTS], out / f"{SETS[name]}-base-test.zip")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gantrain", default="build/gantrain")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("/"))
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    make(args.gantrain.split(), args.root, args.out)


if __name__ == "__main__":
    main()
