# SPDX-License-Identifier: Apache-2.0
"""onnx_pictures.py GANTRAIN FOLDER ROOT: ONNX Runtime draws from `gantrain export --to onnx` what `gantrain generate`
draws: every recipe, without labels, with classes and with vectors, in batches of 3 and 1, truncated or not, with noise or
none."""
import itertools
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file, save_file

gantrain, folder, root = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
fixtures = root / "test" / "fixtures"
TOLERANCE = 1e-4  # of the largest value, where that is above 1
SEEDS = [3, 7, 4294967295]
TINY = "train --device cpu --threads 1 --kimg 0 --metrics none --set samples.rows=1 --set data.synth_size=64 "
R3GAN = TINY + "--preset r3gan-tiny --set r3gan.width=16:8,16 --set r3gan.cardinality=4 --set r3gan.z_dim=16 "
PROJECTED = (
    TINY + "--preset projected-tiny --set projected.ngf=2 --set projected.z_dim=16 --set projected.cout=4 "
    "--set projected.ndf=8 --set projected.feature_widths=4,4,4,4,8,8,8,8 "
)
STYLEGAN2 = (
    TINY + "--preset stylegan2-tiny --batch 4 --set stylegan2.channel_max=8 --set stylegan2.z_dim=8 "
    "--set stylegan2.w_dim=8 --set stylegan2.map_depth=2 "
)
TRAINED = {
    "dcgan-plain": TINY + "--preset dcgan-tiny --batch 8 --resolution 32x16 --set dcgan.norm=none --set data.channels=4",
    "r3gan": R3GAN,
    "r3gan-classes": R3GAN + "--cond on --resolution 32x16",
    "r3gan-vectors": R3GAN + "--cond on --data synth:shapes-attributes",
    "projected-lite": PROJECTED,
    "projected-classes": PROJECTED + "--cond on --set projected.lite=off",
    "projected-64": PROJECTED + "--resolution 64 --set projected.lite=off",
    "stylegan2-resnet": STYLEGAN2 + "--resolution 16 --set stylegan2.g_architecture=resnet",
    "stylegan2-classes": STYLEGAN2 + "--resolution 32x16 --cond on",
}
RESUMED = ["dcgan", "pggan", "stylegan1", "stylegan2"]
REFERENCES = ["sg2_uncond32", "sg2_cond32", "sg3_t32", "sg3_r32", "sg3_t16_c3"]
VECTORS = {"sg2_cond32": 10, "sg3_t16_c3": 3}  # networks of classes can be given vectors


def run(*words):
    done = subprocess.run([gantrain, *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(words)}: {done.returncode}\n{done.stderr}")


def models():
    """Name, model file or run folder, and what more is said to export it."""
    for name, words in TRAINED.items():
        run(*words.split(), "--run-dir", name)
        yield name, name, ""
    for name in RESUMED:
        yield name, str(fixtures / f"resumed-{name}.safetensors"), ""
    metadata = {"gantrain.level": "8", "gantrain.alpha": "0.25"}
    save_file(load_file(fixtures / "resumed-pggan.safetensors"), folder / "stage.safetensors", metadata)
    yield "pggan-stage", "stage.safetensors", ""
    for name in REFERENCES:
        tensors = load_file(fixtures / f"{name}_G.safetensors")
        save_file({key[2:]: value for key, value in tensors.items()}, folder / f"{name}.safetensors")
        yield name, f"{name}.safetensors", ""
        if name in VECTORS:
            yield f"{name}-vectors", f"{name}.safetensors", "--label-vectors"


def drawn_by_gantrain(model, setting, classes):
    """Pictures by class, of all `classes` in one start of the program; by None where there are none."""
    words = ["generate", "--device", "cpu", "--model", model, "--seeds", ",".join(map(str, SEEDS)), "--format", "npy"]
    if setting.get("psi", 1) != 1:
        words += ["--trunc", str(setting["psi"])]
    if not setting.get("noise", 1):
        words += ["--noise-mode", "none"]
    if classes:
        words += ["--class", ",".join(map(str, classes))]
    if "label" in setting:
        words += ["--label", ",".join(f"{place}={number}" for place, number in enumerate(setting["label"]))]
    where = folder / "drawn"
    for file in where.glob("*"):
        file.unlink()
    run(*words, "--outdir", "drawn")
    ends = {number: f"-class{number}.npy" for number in classes} or {None: ".npy"}
    return {number: np.stack([np.load(where / f"seed{seed:04}{end}") for seed in SEEDS]) for number, end in ends.items()}


def feeds_of(inputs, setting, count):
    size = inputs["z"][1]
    feeds = {"z": np.stack([np.random.RandomState(s).randn(size) for s in SEEDS[:count]]).astype(np.float32)}
    for name, value in setting.items():
        if name == "class":
            feeds[name] = np.full(count, value, np.int64)
        else:
            feeds[name] = np.array([value] * count if name == "label" else [value], np.float32)
    return feeds


def settings_of(inputs):
    """But for the class."""
    choices = {"psi": [1, 0.5], "noise": [1, 0]}
    if "label" in inputs:
        numbers = inputs["label"][1]
        choices["label"] = [[1] + [0.25] * (numbers - 1), [k / 7 - 0.5 for k in range(numbers)]]
    names = [name for name in choices if name in inputs]
    for values in itertools.product(*(choices[name] for name in names)):
        yield dict(zip(names, values))


def drawn_pictures(model, inputs, classes):
    """Each setting with each class and its pictures."""
    for setting in settings_of(inputs):
        for drawn in drawn_by_gantrain(model, setting, classes).items():
            yield setting, drawn


def opened(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session, {entry.name: entry.shape for entry in session.get_inputs()}


# Those that docs/operators.md of onnx/onnx-tensorrt calls supported for TensorRT 8.5 and opset 17, of which any may be used.
TENSORRT = set(
    "Abs Add AveragePool Cast Clip Concat Constant Conv ConvTranspose Cos Div Exp Expand Gather Gemm Identity LeakyRelu Log MatMul "
    "Max Min Mul Neg Pad Pow Reciprocal ReduceL2 ReduceMean ReduceSum Relu Reshape Resize Shape Sigmoid Sin Slice Softplus Sqrt "
    "Squeeze Sub Tanh Transpose Unsqueeze Where".split()
)


def refuses(session, feeds):
    try:
        session.run(["images"], feeds)
    except Exception as error:  # of a module of its own
        return "out of data bounds" in str(error)
    return False


def check(name, model, more):
    """The recipe's name, and the largest difference of float16 graphs."""
    graph = folder / f"{name}.onnx"
    run("export", model, "--to", "onnx", "-o", graph.name, *more.split())
    said = json.loads((folder / f"{name}.onnx.json").read_text())
    operators = {node.op_type for node in onnx.load(graph).graph.node}
    assert operators <= TENSORRT, operators - TENSORRT
    session, inputs = opened(graph)
    assert said["opset"] == 17 and set(said["inputs"]) == set(inputs), (said["inputs"], inputs)
    for key, shape in inputs.items():
        assert shape == said["inputs"][key]["shape"], (key, shape)
    run("export", model, "--to", "onnx", "--fp16", "-o", "half.onnx", *more.split())
    assert ("label" in inputs) == ("vectors" in name) and ("class" in inputs) == ("class" in said["self_test"]["cases"][0])
    half, half_inputs = opened(folder / "half.onnx")
    assert half_inputs == inputs and (folder / "half.onnx").stat().st_size < graph.stat().st_size
    apart = half_apart = 0.0
    classes = [0, said["inputs"]["class"]["classes"] - 1] if "class" in inputs else []
    for setting, (number, wanted) in drawn_pictures(model, inputs, classes):
        for count in (3, 1):
            feeds = feeds_of(inputs, setting if number is None else {**setting, "class": number}, count)
            got = session.run(["images"], feeds)[0]
            assert got.shape == wanted[:count].shape and got.dtype == np.float32, (got.shape, wanted.shape)
            scale = max(1, np.abs(wanted).max())
            apart = max(apart, np.abs(got - wanted[:count]).max() / scale)
            half_apart = max(half_apart, np.abs(half.run(["images"], feeds)[0] - wanted[:count]).max() / scale)
    for wrong in (-1, -2, classes[-1] + 1) if classes else ():
        feeds = feeds_of(inputs, {**next(settings_of(inputs)), "class": wrong}, 1)
        assert refuses(session, feeds), (name, wrong)
    print(f"{name}: {' '.join(inputs)}: float32 {apart:.2g}, float16 {half_apart:.2g}", flush=True)
    assert apart <= TOLERANCE, (name, apart)
    assert half_apart <= HALF_TOLERANCE, (name, half_apart)
    return said["recipe"]


HALF_TOLERANCE = 0.004  # likewise; of pictures in [-1, 1] half of one of 255 levels
recipes = {check(*model) for model in models()}
known = {entry.name for entry in (root / "lib" / "recipes").iterdir() if entry.is_dir()}
assert recipes == known, f"no model of {known - recipes}"
