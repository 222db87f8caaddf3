# SPDX-License-Identifier: Apache-2.0
"""Writes a network pickle of the structure that StyleGAN2-ADA (PyTorch) and StyleGAN3 give theirs, from the
tensors of two safetensors files, with Python's standard library alone: modules of the names that a real file
refers to are made up here.

write_official_pickle.py OUT G.safetensors D.safetensors [option...]
  protocol=0..5        of the outer pickle (4)
  repository=ada|stylegan3   the generator's arguments nested, or flat as StyleGAN3 has them (ada)
  numpy=core|_core     where numpy keeps its scalars (core)
  class=NAME           class_name of the generators (Generator)
  argument=KEY:JSON    one more argument of the synthesis network
  without=NAME         G_ema, D, G or a tensor of the generator that is left out
  structure=stylegan3  a generator built as StyleGAN3's own
  structure=r3gan|projected   plain modules, as R3GAN's and Projected GAN's snapshots have them
  global=MODULE-NAME   with structure=projected: an attribute that refers to this
  size=tiny            8 pixels, every dimension at most 2
"""

import collections
import io
import json
import pickle
import struct
import sys
import types

BUFFERS = ("weight_u", "weight_v", "_mean", "_var", "num_batches_tracked", "Kernel", "_filter", "noise_const", "w_avg", "magnitude_ema", "transform", "freqs", "phases")
MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


def stranger(module, name, base=object):
    """A class that pickles under a foreign name."""
    made = type(name, (base,), {"__module__": module})
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        path = ".".join(parts[:count])
        sys.modules.setdefault(path, types.ModuleType(path))
    setattr(sys.modules[module], name, made)
    return made


class Call:
    """Pickles as the call of a foreign function or class, optionally with a state."""

    def __init__(self, function, arguments, state=None):
        self.parts = (function, tuple(arguments)) + ((state,) if state is not None else ())

    def __reduce__(self):
        return self.parts


RECONSTRUCT = stranger("torch_utils.persistence", "_reconstruct_persistent_obj")
PARAMETER = stranger("torch._utils", "_rebuild_parameter")
TENSOR = stranger("torch._utils", "_rebuild_tensor_v2")
LOAD = stranger("torch.storage", "_load_from_bytes")
STORAGE = stranger("torch", "FloatStorage")
LONGS = stranger("torch", "LongStorage")
SIZE = stranger("torch", "Size")
SPECTRAL_NORM = stranger("torch.nn.utils.spectral_norm", "SpectralNorm")
DTYPE = stranger("numpy", "dtype")
EASY_DICT = stranger("dnnlib.util", "EasyDict", dict)


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    config = json.loads(header.pop("__metadata__")["config"])
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == ("I64" if name.endswith("num_batches_tracked") else "F32"), name
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name.split("/", 1)[1]] = (entry["shape"], data[begin:end])
    return tensors, config


def legacy_stream(data, storage, size):
    """What torch.save wrote of a storage of numbers of that size before it wrote zip files."""
    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return ("storage", storage, "94723977181776", "cpu", len(data) // size, None) if value is data else None

    stream = io.BytesIO()
    sizes = dict(short=2, int=4, long=4)
    for value in (MAGIC, PROTOCOL, dict(protocol_version=PROTOCOL, little_endian=True, type_sizes=sizes)):
        pickle.dump(value, stream, 2)
    Pickler(stream, 2).dump(data)
    pickle.dump(["94723977181776"], stream, 2)
    stream.write(struct.pack("<q", len(data) // size) + data)
    return stream.getvalue()


def transposed(shape, data):
    rows, columns = shape
    items = [data[4 * i : 4 * i + 4] for i in range(rows * columns)]
    return b"".join(items[row * columns + column] for column in range(columns) for row in range(rows))


class Writer:
    def __init__(self, options):
        self.filters = {}
        self.scalar = stranger(f"numpy.{options.get('numpy', 'core')}.multiarray", "scalar")

    def tensor(self, name, shape, data):
        strides, first = [1] * len(shape), 0
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        storage = None
        if name.endswith("fc1.weight"):  # not every tensor is contiguous,
            data, strides = transposed(shape, data), [1, shape[0]]
        elif name.endswith("fc2.weight"):  # begins where its storage does
            data, first = bytes(range(12)) + data, 3
        elif name.endswith("resample_filter"):  # or has it alone
            storage = self.filters.setdefault(data, Call(LOAD, [legacy_stream(data, STORAGE, 4)]))
        if storage is None:
            kind = (LONGS, 8) if name.endswith("num_batches_tracked") else (STORAGE, 4)
            storage = Call(LOAD, [legacy_stream(data, *kind)])
        arguments = [storage, first, tuple(shape), tuple(strides), False, collections.OrderedDict()]
        tensor = Call(TENSOR, arguments)
        if name.endswith(BUFFERS):
            return tensor, "_buffers"
        return Call(PARAMETER, [tensor, True, collections.OrderedDict()]), "_parameters"

    def number(self, value):
        dtype = Call(DTYPE, ["f8", False, True], (3, "<", None, None, None, -1, -1, 0))
        return Call(self.scalar, [dtype, struct.pack("<d", value)])

    def module(self, class_name, tensors, arguments):
        """tensors: {"synthesis.b4.const": (shape, data)} of this module and those below."""
        state = {"training": False}
        for key in ("_parameters", "_buffers", "_backward_hooks", "_modules"):
            state[key] = collections.OrderedDict()
        state["_non_persistent_buffers_set"] = set()
        below = {}
        for name, (shape, data) in tensors.items():
            head, dot, tail = name.partition(".")
            if dot:
                below.setdefault(head, {})[tail] = (shape, data)
            else:
                value, kind = self.tensor(class_name + "." + name, shape, data)
                state[kind][name] = value
        names = {"synthesis": "SynthesisNetwork", "mapping": "MappingNetwork", "affine": "FullyConnectedLayer"}
        for name, inner in below.items():
            named = names.get(name, name)
            state["_modules"][name] = self.module(named, inner, EASY_DICT(name=name))
        state["_parameters"]["unused"] = None
        state["weight_gain"] = self.number(0.125)
        state["shape"] = Call(SIZE, [(1, 2)])
        state["_init_args"] = ()
        state["_init_kwargs"] = arguments
        source = "import os\nos.system('false')  # never run\n" * 3
        meta = dict(type="class", version=6, module_src=source, class_name=class_name, state=state)
        return Call(RECONSTRUCT, [meta])


def plain_module(writer, kind, tensors, home="BaselineGAN.Networks", attributes=None):
    """A module as torch pickles it: an instance of its class in the Python module `home`, with its attributes."""
    known = getattr(sys.modules.get(home), kind, None)
    module = (known or stranger(home, kind))()
    state = module.__dict__
    state["training"] = False
    for key in ("_parameters", "_buffers", "_backward_hooks", "_modules"):
        state[key] = {}
    state["_non_persistent_buffers_set"] = set()
    below = {}
    for name, (shape, data) in tensors.items():
        head, dot, tail = name.partition(".")
        if dot:
            below.setdefault(head, {})[tail] = (shape, data)
        else:
            value, where = writer.tensor(name, shape, data)
            state[where][name] = value
    for name, inner in below.items():
        inside = "timm.models.efficientnet_blocks" if name == "pretrained" else home
        state["_modules"][name] = plain_module(writer, "Layer" if name.isdigit() else name, inner, inside)
    state["Groups"] = 3
    state |= attributes or {}
    return module


def projected_network(writer, tensors, config, options):
    """As Projected GAN's code has them: the hooks of spectral norm, and arguments as attributes."""
    hook = SPECTRAL_NORM()
    hook.__dict__ = dict(name="weight", dim=0, n_power_iterations=1, eps=1e-12)
    kept = {key: value for key, value in config.items() if isinstance(value, int) and key not in ("ngf", "cond")}
    kept["_forward_pre_hooks"] = collections.OrderedDict({7: hook})
    if "global" in options:
        home, name = options["global"].split("-")
        kept["more"] = getattr(sys.modules.get(home), name, None) or stranger(home, name)
    kind, home = ("Generator", "networks_fastgan") if "z_dim" in config else ("ProjectedDiscriminator", "discriminator")
    return plain_module(writer, kind, tensors, "pg_modules." + home, kept)


def tiny(tensors):
    kept = {}
    for name, (shape, data) in tensors.items():
        if not any(part in name for part in (".b16.", ".b32.", "b16.", "b32.", "fc3", "fc4", "fc5", "fc6", "fc7")):
            shape = [min(extent, 2) for extent in shape]
            count = 1
            for extent in shape:
                count *= extent
            kept[name] = (shape, data[: 4 * count])
    return kept


def negated(tensors):
    """Every number with its sign bit turned: G is another network than G_ema."""
    flipped = bytes(i ^ 0x80 for i in range(256))
    result = {}
    for name, (shape, data) in tensors.items():
        data = bytearray(data)
        data[3::4] = bytes(data[3::4]).translate(flipped)
        result[name] = (shape, bytes(data))
    return result


def generator_arguments(config, options):
    arguments = EASY_DICT(config)
    if "mapping_kwargs" not in config:  # R3GAN
        return arguments
    arguments["mapping_kwargs"] = EASY_DICT(config["mapping_kwargs"])
    if "synthesis_kwargs" not in config:  # StyleGAN3's own generator has them flat
        return arguments
    synthesis = EASY_DICT(config["synthesis_kwargs"])
    if "argument" in options:
        key, value = options["argument"].split(":", 1)
        synthesis[key] = json.loads(value)
    arguments["synthesis_kwargs"] = synthesis
    if options.get("repository") == "stylegan3":
        del arguments["synthesis_kwargs"]
        arguments.update(synthesis, fused_modconv_default="inference_only")
    return arguments


def main():
    out, path_G, path_D, *rest = sys.argv[1:]
    options = dict(option.split("=", 1) for option in rest)
    G, config_G = read_safetensors(path_G)
    D, config_D = read_safetensors(path_D)
    if options.get("size") == "tiny":
        G, D, config_G["img_resolution"] = tiny(G), tiny(D), 8
    left_out = options.get("without", "")
    G.pop(left_out, None)
    if options.get("structure") == "stylegan3":
        G = {"synthesis.input.weight": ([2, 2], bytes(16))} | {n: G[n] for n in G if n.startswith("mapping")}
    writer = Writer(options)
    arguments = generator_arguments(config_G, options)
    name = options.get("class", "Generator")
    snapshot = {
        "training_set_kwargs": dict(class_name="training.dataset.ImageFolderDataset", path="somewhere"),
        "G": writer.module(name, negated(G), arguments),
        "D": writer.module("Discriminator", D, EASY_DICT(config_D)),
        "G_ema": writer.module(name, G, arguments),
        "augment_pipe": writer.module("AugmentPipe", {"p": ([], bytes(4))}, {}),
    }
    if options.get("structure") == "r3gan":
        networks = dict(G=negated(G), D=D, G_ema=G)
        snapshot = {"training_set_kwargs": snapshot["training_set_kwargs"], "cur_nimg": 512000}
        snapshot |= {name: plain_module(writer, "Generator", given) for name, given in networks.items()}
    if options.get("structure") == "projected":
        networks = dict(G=(negated(G), config_G), D=(D, config_D), G_ema=(G, config_G))
        for name, (given, config) in networks.items():
            snapshot[name] = projected_network(writer, given, config, options)
        snapshot["augment_pipe"] = None
    snapshot.pop(left_out, None)
    with open(out, "wb") as file:
        pickle.dump(snapshot, file, int(options.get("protocol", "4")))


if __name__ == "__main__":
    main()
