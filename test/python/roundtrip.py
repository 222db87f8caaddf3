# SPDX-License-Identifier: Apache-2.0
"""Reads what a run left with the tools that people read it with: roundtrip.py RUN_DIR.

Exit code 77 with a line SKIP: where a package is missing; the other checks have been made by then.
"""

import importlib
import json
import os
import pathlib
import sys

SKIPPED = []


def package(name):
    """The module, or None; then what needs it is skipped, and said at the end."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        SKIPPED.append(os.environ.get("GANTRAIN_NO_TORCH_REASON") if name == "torch" else "")
        SKIPPED[-1] = f"{name}: {SKIPPED[-1] or error}"
        return None


def newest(run, pattern):
    files = sorted(run.glob(pattern))
    assert files, f"no {pattern} in {run}"
    return files[-1]


def finite_tensors(torch, value, where="state"):
    """How many tensors stand anywhere in `value`; all of them are finite."""
    if isinstance(value, torch.Tensor):
        assert not value.is_floating_point() or torch.isfinite(value).all(), f"{where} is not finite"
        return 1
    if isinstance(value, dict):
        return sum(finite_tensors(torch, v, f"{where}.{k}") for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return sum(finite_tensors(torch, v, f"{where}[{i}]") for i, v in enumerate(value))
    return 0


def check_state(run):
    if torch := package("torch"):
        path = newest(run, "state-*.pt")
        state = torch.load(path)  # the defaults: weights_only
        assert isinstance(state, dict), f"{path.name} holds a {type(state).__name__}, not a dict"
        count = finite_tensors(torch, state)
        assert count > 0, f"{path.name} has no tensors"
        print(f"{path.name}: torch.load gives {count} tensors under {', '.join(map(str, state))}")


def check_model(run):
    if package("numpy") and (safetensors := package("safetensors")):
        path = newest(run, "model-*.safetensors")
        with safetensors.safe_open(path, framework="numpy") as file:
            about = file.metadata()
            assert about["format"] == "pt", about
            model = json.loads(about["gantrain.model"])
            assert model["recipe"] == "dcgan", model
            assert "gantrain.version" in about and float(about["gantrain.kimg"]) > 0, about
            generator = [k for k in file.keys() if not k.startswith(("G.", "D."))]
            assert generator, list(file.keys())
            for key in generator:
                assert file.get_tensor(key).size > 0, key
        print(f"{path.name}: {len(generator)} tensors of the generator, {model}")


def check_events(run):
    accumulators = "tensorboard.backend.event_processing.event_accumulator"
    if module := package(accumulators):
        events = module.EventAccumulator(str(newest(run, "events.out.tfevents.*")))
        events.Reload()
        tags = events.Tags()
        assert "Loss/G/loss" in tags["scalars"], tags
        assert "Loss/D/loss" in tags["scalars"], tags
        assert "Samples/fakes" in tags["images"], tags
        image = events.Images("Samples/fakes")[-1]
        assert image.encoded_image_string.startswith(b"\x89PNG"), "the picture is not a PNG"
        assert image.width > 0 and image.height > 0, image
        print(f"events: {len(tags['scalars'])} curves, picture of {image.width} x {image.height}")
        rows = [json.loads(line) for line in (run / "stats.jsonl").read_text().splitlines()]
        curve = {e.step: e.value for e in events.Scalars("Loss/G/loss")}
        in_rows = [row["Loss/G/loss"]["mean"] for row in rows if "Loss/G/loss" in row]
        assert len(curve) == len(in_rows), f"{len(curve)} points in the curve, {len(in_rows)} in stats.jsonl"
        for a, b in zip((curve[step] for step in sorted(curve)), in_rows):
            assert abs(a - b) <= 1e-5 * abs(b) + 1e-7, f"curve {a}, stats.jsonl {b}"


def check_pictures(run):
    if image := package("PIL.Image"):
        for path in sorted(run.glob("samples/*.png")):
            with image.open(path) as picture:
                picture.verify()
                print(f"{path.name}: {picture.size}")


def main():
    run = pathlib.Path(sys.argv[1])
    check_model(run)
    check_events(run)
    check_pictures(run)
    check_state(run)
    if SKIPPED:
        print("SKIP:", "; ".join(SKIPPED))
        sys.exit(77)


if __name__ == "__main__":
    main()
