# SPDX-License-Identifier: Apache-2.0
"""Writes the fuzz targets' corpora: small valid files of every kind, and some that were found to be
hard. Files of other names in these folders, which fuzzers or bug reports gave, stay as they are.

make_corpus.py FOLDER    (numpy and Pillow)
"""

import bz2
import collections
import gzip
import io
import json
import lzma
import pathlib
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

import numpy
from PIL import Image

FOLDER = pathlib.Path(sys.argv[1])


def save(target, name, content):
    path = FOLDER / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def picture(width, height, mode):
    """A smooth picture with an edge, of any of Pillow's modes."""
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [(100 + 80 * numpy.sin(0.4 * (x + c)) * numpy.cos(0.3 * (y - c)) + 40 * (x > width / 2)) for c in range(4)]
    values = numpy.stack(planes, -1).clip(0, 255).astype(numpy.uint8)
    rgba = Image.fromarray(values, "RGBA")
    return rgba if mode == "RGBA" else rgba.convert(mode)


def encoded(image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def raw_png(width, height, depth, color, rows, *, interlaced=0, extra=b""):
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    packed = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def pngs():
    for mode in ("L", "LA", "RGB", "RGBA", "1", "P"):
        save("png", f"{mode}.png", encoded(picture(9, 7, mode), format="PNG"))
    for depth in (1, 2, 4, 16):
        row = bytes(range(16))[: (8 * depth + 7) // 8]
        save("png", f"grey{depth}.png", raw_png(8, 3, depth, 0, [row] * 3))
    save("png", "rgb16.png", raw_png(2, 2, 16, 2, [bytes(range(12))] * 2))
    save("png", "rgba16.png", raw_png(2, 2, 16, 6, [bytes(range(16))] * 2))
    palette = chunk(b"PLTE", bytes(range(12))) + chunk(b"tRNS", b"\0\x80")
    save("png", "palette2.png", raw_png(8, 3, 2, 3, [b"\x1b\xe4"] * 3, extra=palette))
    key = chunk(b"tRNS", b"\0\x01")
    save("png", "key.png", raw_png(8, 2, 8, 0, [bytes(8)] * 2, extra=key))
    save("png", "huge.png", raw_png(30000, 30000, 8, 2, [b"\0" * 30]))
    save("png", "large.png", raw_png(16384, 16384, 8, 6, [b"\0" * 30]))
    save("png", "interlaced.png", raw_png(1, 1, 8, 0, [b"\x55"], interlaced=1))
    turned = raw_png(3, 2, 8, 0, [b"\0\x40\x80"] * 2, extra=chunk(b"eXIf", exif(6, ">")))
    save("png", "exif.png", turned)
    behind = raw_png(3, 2, 8, 0, [b"\0\x40\x80"] * 2)
    save("png", "exif_behind.png", behind[:-12] + chunk(b"eXIf", b"Exif\0\0" + exif(5, "<")) + behind[-12:])


def exif(orientation, order):
    mark = "II" if order == "<" else "MM"
    entry = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return mark.encode() + struct.pack(order + "HI", 42, 8) + struct.pack(order + "H", 1) + entry + bytes(4)


def jpegs():
    for mode in ("L", "RGB", "CMYK"):
        save("jpeg", f"{mode}.jpg", encoded(picture(19, 13, mode), format="JPEG", quality=80))
    rgb = picture(24, 17, "RGB")
    save("jpeg", "progressive.jpg", encoded(rgb, format="JPEG", progressive=True, quality=60))
    save("jpeg", "444.jpg", encoded(rgb, format="JPEG", subsampling=0, optimize=True))
    save("jpeg", "restart.jpg", encoded(rgb, format="JPEG", restart_marker_rows=1))
    for order, name in (("<", "little"), (">", "big")):
        block = exif(6, order)
        save("exif", f"{name}.tiff", block)
        save("jpeg", f"exif_{name}.jpg", encoded(rgb, format="JPEG", exif=b"Exif\0\0" + block))
    save("exif", "whole.jpg", encoded(picture(8, 8, "L"), format="JPEG", exif=b"Exif\0\0" + exif(3, ">")))
    loop = b"II*\0" + struct.pack("<I", 0xFFFFFFF0)
    save("exif", "directory_outside.tiff", loop)
    save("exif", "many_entries.tiff", b"II*\0" + struct.pack("<IH", 8, 0xFFFF) + bytes(24))
    whole = encoded(rgb, format="JPEG")
    at = whole.index(b"\xff\xc0") + 5
    save("jpeg", "huge.jpg", whole[:at] + b"\xff\xff\xff\xff" + whole[at + 4 :])
    save("jpeg", "large.jpg", whole[:at] + b"\x3f\xff\x3f\xff" + whole[at + 4 :])


def webps():
    for mode in ("RGB", "RGBA"):
        for lossless in (False, True):
            name = f"{mode}_{'lossless' if lossless else 'lossy'}.webp"
            save("webp", name, encoded(picture(18, 11, mode), format="WEBP", lossless=lossless))
    frames = [picture(6, 5, "RGB"), picture(6, 5, "RGB").rotate(180)]
    animated = encoded(frames[0], format="WEBP", save_all=True, append_images=frames[1:])
    save("webp", "animated.webp", animated)
    still = encoded(picture(6, 5, "RGB"), format="WEBP", exif=b"Exif\0\0" + exif(8, "<"))
    save("webp", "exif.webp", still)


def stacks():
    for mode in ("L", "RGB", "I;16"):
        for packing in ("raw", "tiff_lzw", "packbits", "tiff_adobe_deflate"):
            name = "%s_%s.tif" % (mode.replace(";", ""), packing)
            wide = numpy.arange(48, dtype=numpy.uint16).reshape(6, 8) * 1301
            image = Image.fromarray(wide) if mode == "I;16" else picture(8, 6, mode)
            more = {"tiffinfo": {317: 2}} if packing == "tiff_lzw" else {}
            save("stack", name, encoded(image, format="TIFF", compression=packing, **more))
    pages = [picture(8, 6, "L") for _ in range(3)]
    content = io.BytesIO()
    pages[0].save(content, "TIFF", save_all=True, append_images=pages[1:])
    save("stack", "pages.tif", content.getvalue())
    for kind in ("uint8", ">u2", "float32", "float64", "float16"):
        values = numpy.linspace(0, 1, 6 * 8 * 5).reshape(6, 8, 5)
        whole = values * {"uint8": 255, ">u2": 65535}.get(kind, 1)
        content = io.BytesIO()
        numpy.save(content, whole.astype(kind))
        save("stack", kind.replace(">", "big_") + ".npy", content.getvalue())


def texts():
    save("json", "preset.json", '// a comment\n{"base": "dcgan", "train": {"batch": 8, /* here */ "kimg": "25M"}}\n')
    save("json", "values.json", '[null, true, false, -1.5e-3, 12345678901234567890, "\\u00e4\\n", {}, [[]]]')
    save("json", "deep.json", "[" * 70 + "]" * 70)
    save("json", "twice.json", '{"a": 1, "a": 2}')
    save("json", "overflow.json", '{"a": 1e999}')
    values = '{"data": {"path": "x", "resolution": 32, "fit": "pad"}, "launch.nproc": "auto"}'
    save("config", "nested", values + "\0DATA__RESOLUTION=16\nLAUNCH__NPROC=2\nCACHE_DIR=/tmp")
    saved = {"gantrain": "0.1.0", "values": {"data.mirror": {"value": True, "origin": "preset"}}}
    save("config", "saved", json.dumps(saved) + "\0LAUNCH__GRACE=1h30m")
    torchrun = "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=host\nMASTER_PORT=29500\n"
    slurm = (
        "SLURM_JOB_ID=7\nSLURM_STEP_ID=0\nSLURM_PROCID=3\nSLURM_LOCALID=1\nSLURM_NTASKS=4\nSLURM_NNODES=2\n"
        "SLURM_NODEID=1\nSLURM_STEP_NUM_TASKS=4\nSLURM_STEP_NUM_NODES=2\nSLURM_STEP_TASKS_PER_NODE=2(x2)\n"
        "SLURM_STEP_NODELIST=n[1-2]\nSLURM_JOB_NODELIST=n[1-2]\nSLURM_TASKS_PER_NODE=2(x2)\n"
    )
    mpi = (
        "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=1\n"
        "OMPI_COMM_WORLD_LOCAL_SIZE=2\nPMI_RANK=1\nPMI_SIZE=2\nMPI_LOCALRANKID=1\nMPI_LOCALNRANKS=2\n"
    )
    pytorch_job = "RANK=1\nWORLD_SIZE=4\nPET_NPROC_PER_NODE=2\nMASTER_ADDR=job-master-0\nMASTER_PORT=23456\n"
    train_job = "PET_NNODES=3:3\nPET_NODE_RANK=2\nPET_NPROC_PER_NODE=auto\nPET_RDZV_ENDPOINT=job-node-0:29400\n"
    pods = (("pytorch_job", pytorch_job), ("train_job", train_job))
    for name, text in (("torchrun", torchrun), ("slurm", slurm), ("mpi", mpi), *pods):
        save("environment", name, b"\0\0" + text.encode())
    save("environment", "batch", b"\x08\0SLURM_JOB_ID=7\nSLURM_NTASKS=1\nSLURM_JOB_END_TIME=1800003600\n")
    place = {"node": 1, "nodes": 2, "ranks": 4, "host": "h1"}
    hello = {"gantrain": 4, "word": 1, "number": 0, "port": 29500, "text": "", "place": place}
    end = {"code": 6, "error": "why", "restartable": True, "resumable": True, "cause": "rank 5", "iteration": 40}
    death = {"kind": "hang", "node": 1, "host": "h1", "rank": 5, "pid": 4711, "signal": 0, "code": 6, "message": "why",
             "phase": "D backward", "iteration": 8, "images_seen": 512, "peak_kib": 0, "sent_by_gantrain": False,
             "host_was_short": False, "hang_timeout": 600.0,
             "progress": {"stopped": True, "collectives": 7, "iteration": 8, "heartbeat_ns": 9}}
    save("node_message", "beat", json.dumps({"gantrain": 4, "word": 0}))
    save("node_message", "hello", json.dumps(hello))
    save("node_message", "report", json.dumps({**hello, "word": 5, "deaths": [death, {**death, "kind": "alive"}]}))
    save("node_message", "verdict", json.dumps({**hello, "word": 7, "end": end}))
    seats = [{"announced": 3, "border": 41, "place": 12884967425}, {"announced": 0, "border": -1, "place": 0}]
    roster = {"lost": 1, "wanted": 2, "generation": 3, "port": 40123, "host": "10.0.0.1", "seats": seats}
    save("node_message", "roster", json.dumps({**hello, "word": 11, "roster": roster}))
    save("node_message", "slots", json.dumps({**hello, "word": 12, "slots": [0, 1]}))
    greeting = f"gantrain-node 4 {'0' * 32}\n"
    messages = "".join(json.dumps({**hello, "word": word}) + "\n" for word in (1, 2, 3, 4, 6, 8, 9, 10))
    for side in "01":
        save("node_link", f"side{side}", f"{side}{greeting}{'0' * 64}\n\x1e{messages}")
        save("node_link", f"hello{side}", f"{side}{messages}\x1e" + json.dumps({"gantrain": 4, "word": 0}) + "\n")
    save("node_link", "version", "0gantrain-node 2 " + "0" * 32 + "\n\x1e" + json.dumps({**hello, "text": "x" * 3000}))
    save("nodelist", "ranges", "rack[1-2]n[08-10,12],login")
    save("nodelist", "tasks", "2(x2),1,16(x128)")
    save("nodelist", "many", "a[0-99999999]")
    save("nodelist", "plain", "localhost")


def zip_of(entries, **options):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **options) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=archive.compression)
    return out.getvalue()


def zips():
    entries = [("a/1.png", encoded(picture(3, 2, "L"), format="PNG")), ("b/\u00e4 2.png", b"text")]
    entries += [("dataset.json", '{"labels": null}'), (".hidden", b""), ("c/", b"")]
    save("zip", "stored.zip", zip_of(entries))
    save("zip", "deflated.zip", zip_of(entries, compression=zipfile.ZIP_DEFLATED))
    bomb = zip_of([("bomb.png", bytes(4_000_000))], compression=zipfile.ZIP_DEFLATED)
    save("zip", "bomb.zip", bomb)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, archive.open("wide.png", "w", force_zip64=True) as entry:
        entry.write(b"wide")
    save("zip", "zip64.zip", out.getvalue())
    save("zip", "empty.zip", zip_of([]))
    lying = bytearray(zip_of([("1.png", b"content")]))
    at = lying.index(b"PK\1\2") + 20
    lying[at : at + 8] = struct.pack("<II", 0x3FFFFFFF, 0x3FFFFFFF)
    save("zip", "lying.zip", bytes(lying))


def tar_of(entries, form):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue().rstrip(b"\0") + bytes(1024)


def tars():
    entries = [("./000001.png", encoded(picture(3, 2, "L"), format="PNG")), ("000001.cls", b"1")]
    save("tar", "ustar.tar", tar_of(entries, tarfile.USTAR_FORMAT))
    long_name = [("folder/" * 20 + "\u00e4.png", b"content")]
    save("tar", "gnu.tar", tar_of(long_name, tarfile.GNU_FORMAT))
    save("tar", "pax.tar", tar_of(long_name, tarfile.PAX_FORMAT))
    lying = bytearray(tar_of([("1.png", b"content")], tarfile.USTAR_FORMAT))
    lying[124:136] = b"77777777777\0"
    lying[148:156] = b" " * 8
    lying[148:156] = b"%06o\0 " % sum(lying[:512])
    save("tar", "lying.tar", bytes(lying))


def packed():
    content = bytes(range(64)) * 4
    save("unpack", "content.gz", gzip.compress(content, mtime=0))
    save("unpack", "two_members.gz", gzip.compress(b"one", mtime=0) + gzip.compress(b"two", mtime=0))
    save("unpack", "content.bz2", bz2.compress(content))
    save("unpack", "content.xz", lzma.compress(content))
    # A zstd frame of one raw block (RFC 8878).
    save("unpack", "content.zst", b"\x28\xb5\x2f\xfd\x20\x03\x19\x00\x00abc")


def lmdb_page(number, flags, lower, upper, body):
    return (struct.pack("<QHHHH", number, 0, flags, lower, upper) + body).ljust(4096, b"\0")


def lmdb(values):
    """A data file of LMDB 0.9: two meta pages and a leaf, with one value on pages of its own."""
    nodes, offsets, at = b"", [], 4096
    for key, value in sorted(values.items()):
        big = len(value) > 2000
        body = struct.pack("<Q", 3) if big else value
        node = struct.pack("<HHHH", len(value) & 0xFFFF, len(value) >> 16, int(big), len(key)) + key + body
        node += b"\0" * (len(node) % 2)
        at -= len(node)
        offsets.append(at)
        nodes = node + nodes
    table = struct.pack(f"<{len(offsets)}H", *offsets)
    leaf = lmdb_page(2, 2, 16 + len(table), at, table.ljust(at - 16, b"\0") + nodes)
    overflow = b""
    for value in values.values():
        if len(value) > 2000:
            overflow = (struct.pack("<QHHI", 3, 0, 4, 1) + value).ljust(4096, b"\0")

    def meta(transaction):
        free = struct.pack("<IHHQQQQQ", 4096, 0, 0, 0, 0, 0, 0, 2**64 - 1)
        main = struct.pack("<IHHQQQQQ", 0, 0, 1, 0, 1, int(bool(overflow)), len(values), 2)
        body = struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 1 << 20) + free + main
        return body + struct.pack("<QQ", 2 + int(bool(overflow)), transaction)

    pages = [lmdb_page(number, 8, 0, 0, meta(number)) for number in (0, 1)]
    return b"".join(pages) + leaf + overflow


def databases():
    small = encoded(picture(3, 2, "L"), format="PNG")
    save("lmdb", "plain.mdb", lmdb({b"key1": small, b"key2": b"text"}))
    save("lmdb", "sizes.mdb", lmdb({b"8-00000": small, b"16-00000": bytes(3000), b"length": b"1"}))


def records():
    images = struct.pack(">HBBIII", 0, 8, 3, 2, 5, 4) + bytes(range(40))
    labels_of_images = struct.pack(">HBBI", 0, 8, 1, 2) + b"\0\7"
    save("idx", "with_labels", images + b"labels" + labels_of_images)
    save("idx", "absurd", struct.pack(">HBBIII", 0, 8, 3, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF) + bytes(8))
    save("cifar", "ten.bin", b"".join(bytes([k]) + bytes(3072) for k in (0, 9)))
    save("cifar", "hundred.bin", b"".join(bytes([k, 5 * k]) + bytes(3072) for k in (0, 19)))
    batch = {b"data": numpy.zeros((2, 3072), "u1"), b"labels": [0, 9], b"filenames": [b"a.png", b"b.png"]}
    for protocol in (2, 4):
        save("cifar", f"python{protocol}", pickle.dumps(batch, protocol))
    save("cifar", "names", pickle.dumps({b"label_names": [b"airplane", b"bird"], b"num_vis": 3072}, 2))


def tables():
    rows = 'file_name,label\n00000/img00000000.png,circle\n"a b.png","ring, ""broad"""\n\u00e4.jpg,circle\n'
    save("csv", "names.csv", rows)
    save("csv", "numbers.tsv", "\ufeffa b.png\t0\nimg00000000\t1\n\u00e4\t1\n")
    save("csv", "open_quote.csv", 'a,"b\nc,d\n')


def labels():
    save("dataset_json", "labels.json", '{"labels": [["00000/img00000000.png", 1], ["a b.png", 0], ["\u00e4.jpg", 2]]}')
    save("dataset_json", "null.json", '{"labels": null}')
    names = {"labels": [["a b.png", 0]], "classes": ["circle", "ring"]}
    save("dataset_json", "names.json", json.dumps(names))
    save("dataset_json", "vectors.json", '{"labels": [["a b.png", [0, 1.5]]]}')


def safetensors(header, content):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def weights():
    info = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    header = {"__metadata__": {"format": "pt", "gantrain.model": "{}"}, "a": info}
    header["b"] = {"dtype": "U8", "shape": [], "data_offsets": [24, 25]}
    content = numpy.arange(6, dtype="<f4").tobytes() + b"\7"
    save("safetensors", "whole.safetensors", safetensors(header, content))
    save("safetensors", "without_length", json.dumps(header).encode() + b"\0" + content)
    save("safetensors", "overflow", b'{"a": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 4]}}\0')
    save("safetensors", "deep", b'{"a": {"dtype": ' + b"[" * 100 + b"]" * 100 + b"}}\0")


def run_folder(*files):
    """Files of the target's numbers, one behind the other."""
    files = [(number, text.encode() if isinstance(text, str) else text) for number, text in files]
    assert not any(b"\x1e" in content for _, content in files)
    return b"".join(bytes([0x50 + number]) + content + b"\x1e" for number, content in files)


def run_folders():
    names = ("Progress/kimg", "Progress/distinctness", "Loss/G/loss", "Loss/D/loss", "Timing/sec_per_kimg", "Timing/total_sec")
    rows = [json.dumps({name: {"num": 1, "mean": kimg + i, "std": 0} for i, name in enumerate(names)}) for kimg in range(30)]
    fids = [json.dumps({"results": {"fid": 90 - k}, "kimg": k, "recipe": {"fakes": 1024}}) for k in (0, 20)]
    snapshot = json.dumps({"results": {"fid": None}, "snapshot": "model-000030.safetensors", "recipe": {"fakes": 50000}})
    values = {"train.kimg": 200, "train.batch": 64, "recipe": "dcgan", "dcgan.loss": "dcgan", "samples.rows": 2, "samples.columns": 4,
              "metrics.collapse_below": 0.1, "metrics.collapse_times": 3, "metrics.collapse_after": 20}
    config = json.dumps({"gantrain": "0.1.0", "values": {key: {"value": value, "origin": "default"} for key, value in values.items()}})
    log = "\n".join(f"2026-01-12 09:14:3{i} {text}" for i, text in enumerate((
        "run     runs/a", "resume  at 12.5 kimg (state-000012.500.pt)", "warning x", "error   y", "next    gantrain --resume auto")))
    extra = {"rank": 1, "host": "a", "phase": "D backward", "iteration": 7, "kimg": 0.5, "exit_code": None, "signal": 11,
             "first_cause": True, "last_state": "state.pt", "resume": "gantrain", "py_callstack": "why\nmain()"}
    death = json.dumps({"message": {"message": "why", "extraInfo": extra}})
    environment = json.dumps({"host": "a", "ranks": 2, "environment": {"OMP_NUM_THREADS": "1"}})
    classes = json.dumps([{"name": "circle", "pictures": 3}, {"name": "ring", "pictures": 4}])
    model = safetensors({"__metadata__": {"gantrain.classes": classes}}, b"")
    grids = [encoded(picture(side, side, "L"), format="PNG") for side in range(4, 40)]
    grid = next(one for one in grids if b"\x1e" not in one)
    stats = "\n".join(rows) + "\n"
    metrics = "\n".join([*fids, snapshot]) + "\n{half"
    save("run_folder", "done", run_folder((0, "done 200 kimg\n"), (1, config), (2, stats), (3, metrics), (5, "gantrain"), (6, log),
                                          (7, environment), (8, model), (9, grid), (10, grid), (11, grid)))
    save("run_folder", "failed", run_folder((0, "failed with exit code 8: disk\n"), (1, config), (2, stats), (4, death), (6, log),
                                            (12, log), (13, death), (14, death), (15, stats)))
    nan = stats.replace('"mean": 25', '"mean": NaN').replace('"mean": 26', '"mean": 1e308').replace('"mean": 27', '"mean": -1e308')
    save("run_folder", "diverged", run_folder((0, "running\n"), (1, config), (2, nan), (9, b"\x89PNG")))
    deep = "[" * 100 + "]" * 100
    save("run_folder", "deep", run_folder((1, f'{{"values": {{"a": {{"value": {deep}}}}}}}'), (2, f'{{"x": {deep}}}\n'), (7, f'{{"a": {deep}}}')))


def pickles():
    value = {"name": ["text", b"bytes", 1.5, None, True, 1 << 70, (1, 2), {3}, -5]}
    value["self"] = value
    for protocol in range(6):
        save("pickle", f"plain{protocol}.pkl", pickle.dumps(value, protocol))
    save("pickle", "ordered.pkl", pickle.dumps(collections.OrderedDict(a=1, b=[2])))
    save("pickle", "numpy.pkl", pickle.dumps(numpy.arange(3, dtype="f4")))


def official_pickles():
    """Whole network pickles, as small as they can be, by the writer that the tests of import use."""
    tests = pathlib.Path(__file__).parent.parent
    weights = [tests / "fixtures" / f"sg2_uncond32_{network}.safetensors" for network in "GD"]
    out = FOLDER / "official_pickle"
    out.mkdir(parents=True, exist_ok=True)
    for name, options in (("ada", []), ("stylegan3", ["repository=stylegan3", "protocol=2"])):
        command = [sys.executable, tests / "exchange" / "write_official_pickle.py", out / f"{name}.pkl", *weights]
        subprocess.run([*command, "size=tiny", *options], check=True)


def states():
    """A state of one tensor, a zip in torch's layout, with a wrong checksum; whole.pt has the right one."""
    storage = b"ctorch\nFloatStorage\n"
    tensor = (
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage" + storage + b"X\1\0\0\0" + b"0X\3\0\0\0cpuK\3tQK\0"
        b"K\3\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR"
    )
    data = b"\x80\2}(X\4\0\0\0metaX\2\0\0\0{}X\7\0\0\0tensors}X\1\0\0\0a" + tensor + b"su."
    entries = [("archive/data.pkl", data), ("archive/data/0", numpy.arange(3, dtype="<f4").tobytes())]
    entries += [("archive/byteorder", b"little"), ("archive/version", b"3\n")]
    whole = bytearray(zip_of(entries))
    comment = b"gantrain-xxh3-128:" + b"0" * 32
    whole[-2:] = struct.pack("<H", len(comment))
    save("state", "one_tensor.pt", bytes(whole) + comment)


def arrays():
    for kind in ("<f4", "<f8", ">f4", "<i4", "|u1", "<f2"):
        out = io.BytesIO()
        numpy.save(out, numpy.arange(6).reshape(2, 3).astype(kind))
        save("npy", f"{kind[1:]}{'_big' if kind[0] == '>' else ''}.npy", out.getvalue())
    out = io.BytesIO()
    numpy.save(out, numpy.asfortranarray(numpy.ones((2, 3), "f4")))
    save("npy", "fortran.npy", out.getvalue())
    out = io.BytesIO()
    numpy.savez(out, w=numpy.ones((1, 2, 3), "f4"))
    save("npz", "w.npz", out.getvalue())
    out = io.BytesIO()
    numpy.savez_compressed(out, w=numpy.ones((1, 2, 3), "f8"), seeds=numpy.arange(3))
    save("npz", "compressed.npz", out.getvalue())
    out = io.BytesIO()
    numpy.savez(out, directions=numpy.eye(2, dtype="f4"), about='{"layers": [0]}')
    save("npz", "directions.npz", out.getvalue())


if __name__ == "__main__":
    for write in (pngs, jpegs, webps, stacks, texts, zips, tars, packed, databases, records, tables, labels, weights, run_folders, pickles, official_pickles, states, arrays):
        write()
