# SPDX-License-Identifier: Apache-2.0
"""StyleGAN2's official PyTorch code: seconds of Gmain, path length (Greg), Dmain and R1 (Dreg).

    python scripts/peers/stylegan2.py --official FOLDER --resolution 64 --batch 8
    python scripts/peers/stylegan2.py --official FOLDER --device cuda --resolution 256 --batch 64 --fp16-res 4

FOLDER is a checkout of an official repository: StyleGAN2-ADA's, or StyleGAN3's, whose `stylegan2`
configuration is the same network. Its networks and its loss run from there on random pictures, without
augmentation. On a CPU they use their reference operators; on a GPU the best set-up that runs with this
torch, which the answer names. Prints one JSON line.
"""
import argparse
import contextlib
import copy
import importlib
import inspect
import os
import re
import sys
import types
import warnings

import torch

from measuring import add_arguments, answer, begin, measure, memory

INTERVALS = {"Greg": 4, "Dreg": 16}


def numbers_of(version):
    """"2.11.0+cpu" -> (2, 11, 0), which compare as versions do."""
    return tuple(int(number) for number in re.findall(r"\d+", version.split("+")[0]))


def stand_in_for_missing_modules():
    """The code imports modules that only its downloads and its CUDA kernels use, and one that new Pythons
    do not bring along, for its comparison of versions."""
    for name, content in (("requests", {}), ("torch.utils.cpp_extension", {}),
                          ("pkg_resources", {"parse_version": numbers_of})):
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = types.ModuleType(name)
            vars(sys.modules[name]).update(content)


def is_newer(args):
    """Whether the checkout is StyleGAN3's."""
    return os.path.isfile(os.path.join(args.official, "training", "networks_stylegan2.py"))


def networks_of(args):
    networks = importlib.import_module(
        "training.networks_stylegan2" if is_newer(args) else "training.networks")
    shared = {"channel_base": args.channel_base, "channel_max": args.channel_max}
    if args.fp16_res > 0:
        shared.update(num_fp16_res=args.fp16_res, conv_clamp=256)
    synthesis = dict(shared)
    if is_newer(args):
        # Their set-up for this network: grouped convolutions in training are slower.
        synthesis["fused_modconv_default"] = "inference_only"
    else:
        synthesis = {"synthesis_kwargs": synthesis}
    G = networks.Generator(args.z_dim, 0, args.w_dim, args.resolution, 3,
                           mapping_kwargs={"num_layers": args.map_depth}, **synthesis)
    group = min(args.mbstd_group, args.batch)
    D = networks.Discriminator(0, args.resolution, 3, **shared, epilogue_kwargs={"mbstd_group_size": group})
    return [network.train().requires_grad_(False).to(args.device) for network in (G, D)]


def loss_of(args, G, D, wanted):
    from training.loss import StyleGAN2Loss

    known = inspect.signature(StyleGAN2Loss).parameters
    wanted = {"r1_gamma": args.gamma, **wanted}
    settings = {name: value for name, value in wanted.items() if name in known}
    if is_newer(args):
        return StyleGAN2Loss(args.device, G, D, **settings)
    return StyleGAN2Loss(args.device, G.mapping, G.synthesis, D, **settings)


class Training:
    REGULARIZED = {"style_mixing_prob": 0.9, "pl_weight": 2, "pl_no_weight_grad": True}

    def __init__(self, args, networks=networks_of, settings=REGULARIZED):
        self.newer = is_newer(args)
        self.G, self.D = networks(args)
        self.average = copy.deepcopy(self.G).eval()
        self.loss = loss_of(args, self.G, self.D, settings)
        self.adam = {network: torch.optim.Adam(network.parameters(), 2.5e-3, (0.0, 0.99), 1e-8)
                     for network in (self.G, self.D)}
        self.real = torch.rand(args.batch, 3, args.resolution, args.resolution, device=args.device) * 2 - 1
        self.latents = (args.batch, args.z_dim)
        self.labels = torch.zeros(args.batch, 0, device=args.device)

    def phase(self, name, network, gain=1):
        """One phase as their training loop runs it."""
        def run():
            adam = self.adam[network]
            adam.zero_grad(set_to_none=True)
            network.requires_grad_(True)
            z = torch.randn(self.latents, device=self.real.device)
            # Theirs: whether gradients are synchronised, then the gain; or the gain, then the images seen.
            rest = (gain, 0) if self.newer else (True, gain)
            self.loss.accumulate_gradients(name, self.real, self.labels, z, self.labels, *rest)
            network.requires_grad_(False)
            for parameter in network.parameters():
                if parameter.grad is not None:
                    torch.nan_to_num(parameter.grad, nan=0, posinf=1e5, neginf=-1e5, out=parameter.grad)
            adam.step()
        return run

    def move_average(self):
        with torch.no_grad():
            for mean, now in zip(self.average.parameters(), self.G.parameters()):
                mean.copy_(now.lerp(mean, 0.999))
            for mean, now in zip(self.average.buffers(), self.G.buffers()):
                mean.copy_(now)

    def phases(self):
        return {"Gmain": self.phase("Gmain", self.G), "Greg": self.phase("Greg", self.G, 4),
                "Dmain": self.phase("Dmain", self.D), "Dreg": self.phase("Dreg", self.D, 16),
                "rest": self.move_average}


def use_gradient_fixes(used):
    """Their own backward passes of convolutions, which only some versions of torch can run."""
    importlib.import_module("torch_utils.ops.conv2d_gradfix").enabled = used


def use_reference_operators():
    """As on a CPU: where their kernels cannot be compiled."""
    for name in ("bias_act", "upfirdn2d"):
        importlib.import_module("torch_utils.ops." + name)._init = lambda: False


def with_fixes():
    use_gradient_fixes(True)


def without_fixes():
    use_gradient_fixes(False)


def without_kernels():
    use_gradient_fixes(False)
    use_reference_operators()


SETUPS = {"kernels, gradient fixes": with_fixes, "kernels": without_fixes, "reference operators": without_kernels}


def name_compiled_modules():
    """Their code imports a compiled module by name after loading it, which this torch no longer provides for."""
    extension = importlib.import_module("torch.utils.cpp_extension")
    load = extension.load

    def load_and_name(name, *args, **kwargs):
        sys.modules[name] = load(name, *args, **kwargs)
        return sys.modules[name]

    extension.load = load_and_name


def choose_setup(args, make):
    """Takes the first set-up with which every phase of make(args) runs, and returns its name."""
    if args.device == "cpu":
        return "reference operators"
    name_compiled_modules()
    small = copy.copy(args)
    small.batch, small.resolution = 8, min(args.resolution, 64)
    failures = []
    for name, choose in SETUPS.items():
        try:
            choose()
            for run in make(small).phases().values():
                run()
            torch.cuda.synchronize()
            return name
        except Exception as error:  # their kernels fail to compile in many ways
            failures.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            print(failures[-1])
    sys.exit("the official code does not run: " + "; ".join(failures))


def add_network_arguments(parser):
    parser.add_argument("--official", required=True, help="checkout of an official repository")
    parser.add_argument("--resolution", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--channel-base", type=int, default=16384)
    parser.add_argument("--channel-max", type=int, default=512)
    parser.add_argument("--map-depth", type=int, default=2)
    parser.add_argument("--z-dim", type=int, default=512)
    parser.add_argument("--w-dim", type=int, default=512)
    parser.add_argument("--gamma", type=float, default=1)
    parser.add_argument("--mbstd-group", type=int, default=4)
    parser.add_argument("--fp16-res", type=int, default=0, help="of the highest resolutions, with clamp 256")
    add_arguments(parser, warm=1, steps=2)


def time_official(args, files, make, intervals):
    """Times the phases of make(args), which imports from the checkout that holds one of `files`."""
    if not any(os.path.isfile(os.path.join(args.official, "training", file)) for file in files):
        sys.exit(f"--official {args.official}: none of training/{', training/'.join(files)} there")
    sys.path.insert(0, args.official)
    stand_in_for_missing_modules()
    begin(args)
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        setup = choose_setup(args, make)
        if args.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        training = make(args)
        times = measure(training.phases(), intervals, args)
    answer(operators=setup, **times, **memory(args))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_network_arguments(parser)
    time_official(parser.parse_args(), ("networks.py", "networks_stylegan2.py"), Training, INTERVALS)


if __name__ == "__main__":
    main()
