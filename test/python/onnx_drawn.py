# SPDX-License-Identifier: Apache-2.0
"""onnx_drawn.py FOLDER: a folder that gantrain export made is written as ONNX, by both of torch's
exporters, and drawn by onnxruntime: the same pictures as by the exported program itself. Exit
status 77 where there is no onnxruntime."""
import os
import sys

try:
    import onnxruntime
    import onnxscript  # noqa: F401: torch.onnx needs it
    import torch
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

FOLDER = sys.argv[1]
sys.path.insert(0, FOLDER)
import model  # noqa: E402


def draw(path, given):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    (pictures,) = session.run(None, {name: x.numpy() for name, x in zip(names, given)})
    return torch.from_numpy(pictures)


def main():
    generator = model.load_generator(FOLDER)
    given = (model.latents([3], generator.z_dim),)
    if generator.classes:
        given += (torch.tensor([generator.classes - 1]),)
    expected = generator(*given)
    path = os.path.join(FOLDER, "model.onnx")
    model.export_onnx(generator, path)
    apart = (draw(path, given) - expected).abs().max().item()
    names = ["z", "label"][: len(given)]
    older = os.path.join(FOLDER, "older.onnx")
    torch.onnx.export(generator, given, older, input_names=names, dynamo=False)
    older_apart = (draw(older, given) - expected).abs().max().item()
    print(f"max abs difference: {apart:.3g}, by the older exporter {older_apart:.3g}")
    sys.exit(0 if apart <= 1e-4 and older_apart <= 1e-4 else 1)


main()
