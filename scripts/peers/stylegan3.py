# SPDX-License-Identifier: Apache-2.0
"""StyleGAN3's official PyTorch code: seconds of Gmain, Dmain and R1 (Dreg).

    python scripts/peers/stylegan3.py --official FOLDER --config t --resolution 64 --batch 4

FOLDER is a checkout of StyleGAN3's official repository; the Python needs scipy, with which that code
designs its filters. See stylegan2.py, whose discriminator and loss it shares. Prints one JSON line.
"""
import argparse
import importlib

import stylegan2

CONFIGURATIONS = {"t": {}, "r": {"conv_kernel": 1, "use_radial_filters": True}}
WIDTHS = {"t": 1, "r": 2}  # of G's feature maps


def number_or(other):
    """A number; or, where "auto" is given, another."""
    return lambda text: other if text == "auto" else int(text)


def networks_of(args):
    generator = importlib.import_module("training.networks_stylegan3").Generator
    discriminator = importlib.import_module("training.networks_stylegan2").Discriminator
    times = WIDTHS[args.config]
    D = discriminator(0, args.resolution, 3, channel_base=args.d_channel_base or args.channel_base,
                      channel_max=args.d_channel_max or args.channel_max,
                      num_fp16_res=args.fp16_res, conv_clamp=256 if args.fp16_res else None,
                      epilogue_kwargs={"mbstd_group_size": min(args.mbstd_group, args.batch)})
    G = generator(args.z_dim, 0, args.w_dim, args.resolution, 3, mapping_kwargs={"num_layers": args.map_depth},
                  num_layers=args.num_layers, margin_size=args.margin,
                  channel_base=times * args.channel_base, channel_max=times * args.channel_max,
                  num_fp16_res=args.fp16_res, magnitude_ema_beta=0.5 ** (args.batch / 20e3), **CONFIGURATIONS[args.config])
    return [network.train().requires_grad_(False).to(args.device) for network in (G, D)]


class StyleGan3(stylegan2.Training):
    def __init__(self, args):
        super().__init__(args, networks_of, {"style_mixing_prob": 0, "pl_weight": 0})

    def phases(self):
        phases = super().phases()
        del phases["Greg"]
        return phases


def without_kernels():
    stylegan2.without_kernels()
    importlib.import_module("torch_utils.ops.filtered_lrelu")._init = lambda: False


def add_network_arguments(parser):
    stylegan2.add_network_arguments(parser)
    parser.add_argument("--num-layers", type=int, default=14)
    parser.add_argument("--margin", type=int, default=10)
    parser.add_argument("--config", choices=CONFIGURATIONS, default="t")
    for flag in ("--d-channel-base", "--d-channel-max"):
        parser.add_argument(flag, type=number_or(0), default=0, help="auto: as G's of configuration t")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_network_arguments(parser)
    stylegan2.time_official(parser.parse_args(), ("networks_stylegan3.py",), StyleGan3, {"Dreg": 16})


if __name__ == "__main__":
    main()
