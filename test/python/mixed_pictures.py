# SPDX-License-Identifier: Apache-2.0
"""Pictures of every form that gantrain reads, as Pillow writes them, and files that only look like pictures.

mixed_pictures(count, seed) gives (path, content, pixels): pixels as gantrain should see them with four
channels, [height, width, 4], made by Pillow and numpy. broken_pictures() gives path -> content.
"""

import io
import struct
import zlib

import numpy
from PIL import Image

FOLDERS = ("circles", "zwei Wörter", "輪")
EXIF_TAG = 0x0112
TRANSPOSED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def photograph(random, size, channels):
    """Something like a photograph, [height, width, channels]: smooth areas, edges, a little noise."""
    width, height = size
    coarse = random.integers(0, 256, (max(height // 16, 2), max(width // 16, 2), channels), dtype=numpy.uint8)
    planes = [Image.fromarray(coarse[..., c]).resize(size, Image.Resampling.BICUBIC) for c in range(channels)]
    values = numpy.stack([numpy.asarray(plane) for plane in planes], -1).astype(int)
    y, x = numpy.mgrid[0:height, 0:width]
    inside = numpy.hypot(x - width / 2, y - height / 2) < min(size) / 3
    values += 60 * inside[..., None] + random.integers(-6, 7, values.shape)
    return values.clip(0, 255).astype(numpy.uint8)


def encoded(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def rgba(values):
    """Pixels of any number of channels as RGBA."""
    values = numpy.asarray(values)
    if values.ndim == 2:
        values = values[..., None]
    if values.shape[2] <= 2:
        values = numpy.concatenate([values[..., :1].repeat(3, 2), values[..., 1:]], 2)
    if values.shape[2] == 3:
        values = numpy.concatenate([values, numpy.full_like(values[..., :1], 255)], 2)
    return values


def read_back(content):
    """What Pillow makes of a file, as RGBA."""
    image = Image.open(io.BytesIO(content))
    image.load()
    return rgba(image.convert("RGBA"))


def png_chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_of_bits(values, depth):
    """A grey PNG of 1, 2, 4 or 16 bits; values [height, width] in its own range."""
    height, width = values.shape
    if depth == 16:
        rows = values.astype(">u2").view(numpy.uint8).reshape(height, -1)
    else:
        bits = (values[..., None] >> numpy.arange(depth)[::-1]) & 1
        rows = numpy.packbits(bits.reshape(height, -1).astype(numpy.uint8), axis=1)
    head = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")


def grey_png(depth):
    def make(random, size):
        grey = photograph(random, size, 1)[..., 0].astype(int)
        if depth == 16:
            wide = grey * 256 + random.integers(0, 256, grey.shape)
            return png_of_bits(wide, 16), rgba(((wide * 255 + 32767) // 65535).astype(numpy.uint8))
        values = grey >> (8 - depth)
        return png_of_bits(values, depth), rgba((values * 255 // (2**depth - 1)).astype(numpy.uint8))

    return make


def pillow(mode, form, prepare=lambda image: image, **options):
    """A form that Pillow both writes and reads, from a photograph of that mode."""

    def make(random, size):
        image = Image.fromarray(photograph(random, size, {"L": 1, "LA": 2, "RGB": 3}.get(mode, 4)).squeeze(), mode)
        content = encoded(prepare(image), form, **options)
        return content, read_back(content)

    return make


def palette_png(random, size):
    image = Image.fromarray(photograph(random, size, 3)).quantize(32)
    content = encoded(image, "PNG", transparency=bytes(range(255, 223, -1)))
    return content, read_back(content)


def rotated(orientation, form, **options):
    def make(random, size):
        turned = size if orientation < 5 else size[::-1]
        exif = Image.Exif()
        exif[EXIF_TAG] = orientation
        content = encoded(Image.fromarray(photograph(random, turned, 3)), form, exif=exif, **options)
        image = Image.open(io.BytesIO(content)).convert("RGB")
        return content, rgba(image.transpose(TRANSPOSED[orientation]) if orientation > 1 else image)

    return make


# name -> (ending, what makes it, by how much decoders may differ)
FORMS = {
    "grey1": ("png", grey_png(1), 0),
    "grey2": ("png", grey_png(2), 0),
    "grey4": ("png", grey_png(4), 0),
    "grey8": ("png", pillow("L", "PNG"), 0),
    "grey16": ("png", grey_png(16), 0),
    "grey_alpha": ("png", pillow("LA", "PNG"), 0),
    "rgb": ("PNG", pillow("RGB", "PNG"), 0),
    "rgba": ("png", pillow("RGBA", "PNG"), 0),
    "palette": ("png", palette_png, 0),
    "wrong_ending": ("jpg", pillow("RGB", "PNG"), 0),
    "jpeg_grey": ("jpg", pillow("L", "JPEG", quality=90), 1),
    "jpeg_420": ("jpeg", pillow("RGB", "JPEG", quality=75), 1),
    "jpeg_444": ("JPG", pillow("RGB", "JPEG", quality=95, subsampling=0), 1),
    "jpeg_progressive": ("jpg", pillow("RGB", "JPEG", quality=80, progressive=True), 1),
    "jpeg_cmyk": ("jpg", pillow("CMYK", "JPEG", quality=90), 1),
    **{f"jpeg_exif{k}": ("jpg", rotated(k, "JPEG", quality=92), 1) for k in range(1, 9)},
    **{f"png_exif{k}": ("png", rotated(k, "PNG"), 0) for k in (1, 3, 6)},
    **{f"webp_exif{k}": ("webp", rotated(k, "WEBP", lossless=True), 0) for k in (1, 3, 6)},
    "webp_lossy": ("webp", pillow("RGB", "WEBP", quality=80), 1),
    "webp_lossless": ("webp", pillow("RGB", "WEBP", lossless=True), 0),
    "webp_alpha": ("webp", pillow("RGBA", "WEBP", lossless=True, exact=True), 0),
    "webp_lossy_alpha": ("webp", pillow("RGBA", "WEBP", quality=80), 1),
}


def mixed_pictures(count, seed, size=None):
    """Pictures of all forms in turn, of one size or of many."""
    random = numpy.random.default_rng(seed)
    names = list(FORMS)
    for i in range(count):
        form = names[i % len(names)]
        ending, make, _ = FORMS[form]
        own = size or tuple(int(side) for side in random.integers(40, 400, 2))
        content, pixels = make(random, own)
        yield f"{FOLDERS[i % 3]}/{i:05d} {form}.{ending}", content, pixels


def png_announcing(png, side):
    """The PNG with another size in its header, whose checksum is right."""
    head = struct.pack(">II", side, side) + png[24:29]
    return png[:8] + png_chunk(b"IHDR", head) + png[33:]


def broken_pictures():
    """Ten files that are no readable pictures, each in its own way."""
    random = numpy.random.default_rng(0)
    image = Image.fromarray(photograph(random, (120, 90), 3))
    png, jpeg, webp = (encoded(image, form) for form in ("PNG", "JPEG", "WEBP"))
    frame = jpeg.index(b"\xff\xc0") + 5  # height and width
    data = png.index(b"IDAT")
    palette = encoded(image.quantize(16), "PNG")
    length = palette.index(b"PLTE") - 4
    return {
        "circles/bad cut.jpg": jpeg[: len(jpeg) // 2],
        "circles/bad cut.png": png[: len(png) // 2],
        "circles/bad empty.png": b"",
        "zwei Wörter/bad header.png": png_announcing(png, 30000),
        "zwei Wörter/bad large.png": png_announcing(png, 11000),
        "zwei Wörter/bad header.jpg": jpeg[:frame] + b"\xff\xff\xff\xff" + jpeg[frame + 4 :],
        "輪/bad text.png": b"This is a text.\n" * 40,
        "輪/bad checksum.png": png[: data + 40] + bytes([png[data + 40] ^ 4]) + png[data + 41 :],
        "輪/bad cut.webp": webp[: len(webp) * 2 // 3],
        "輪/bad palette.png": palette[:length] + png_chunk(b"PLTE", bytes(8)) + palette[length + 60 :],
    }
