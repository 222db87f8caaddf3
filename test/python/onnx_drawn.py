# SPDX-License-Identifier: Apache-2.0
"""onnx_drawn.py FOLDER...: folders that gantrain export made are written as ONNX, by both of torch's
exporters, and drawn by onnxruntime: the same pictures as by the exported program itself. Exit
status 77 where there is no onnxruntime."""
import importlib.util
import os
import sys

try:
    import onnxruntime
    import onnxscript  # noqa: F401: torch.onnx needs it
    import torch
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)


def program_of(folder):
    """The exported program, as a module."""
    spec = importlib.util.spec_from_file_location("model", os.path.join(folder, "model.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules["model"] = module
    spec.loader.exec_module(module)
    return module


def draw(path, given):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    (pictures,) = session.run(None, {name: x.numpy() for name, x in zip(names, given)})
    return torch.from_numpy(pictures)


def differences(folder):
    """The largest differences of a picture by the two exporters."""
    model = program_of(folder)
    generator = model.load_generator(folder)
    given = (model.latents([3], generator.z_dim),)
    if generator.classes:
        last = torch.tensor([generator.classes - 1])
        given += (model.first_label(generator) if model.has_vectors(generator) else last,)
    expected = generator(*given)
    path = os.path.join(folder, "model.onnx")
    model.export_onnx(generator, path)
    names = ["z", "label"][: len(given)]
    older = os.path.join(folder, "older.onnx")
    torch.onnx.export(generator, given, older, input_names=names, dynamo=False)
    return [(draw(file, given) - expected).abs().max().item() for file in (path, older)]


def main():
    right = True
    for folder in sys.argv[1:]:
        apart, older_apart = differences(folder)
        print(f"{folder}: max abs difference {apart:.3g}, by the older exporter {older_apart:.3g}")
        right = right and apart <= 1e-4 and older_apart <= 1e-4
    sys.exit(0 if right else 1)


main()
