# SPDX-License-Identifier: Apache-2.0
class Weight(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))


class Mapping(nn.Module):
    """z and the class -> w."""

    def __init__(self, model):
        super().__init__()
        wide = model["latent_size"]
        if model["label_size"] > 0:
            self.LabelConcat = Weight(model["label_size"], wide)
            wide *= 2
        self.depth = model["mapping_layers"]
        for i in range(self.depth):
            out = model["dlatent_size" if i + 1 == self.depth else "mapping_fmaps"]
            layer = Equalised((out, wide), out, rate=model["mapping_lrmul"])
            self.add_module("Dense%d" % i, layer)
            wide = out

    def forward(self, z, label):
        if hasattr(self, "LabelConcat"):
            z = torch.cat([z, self.LabelConcat.weight[label]], 1)
        x = pixel_norm(z)
        for i in range(self.depth):
            x = leaky_relu(getattr(self, "Dense%d" % i).dense(x))
        return x


class StyledLayer(nn.Module):
    """A constant, or a convolution; then noise, bias, leaky ReLU and the style."""

    def __init__(self, wide, out, w_dim, up):
        super().__init__()
        if wide == 0:
            self.const = nn.Parameter(torch.ones(1, out, 4, 4))
        else:
            self.weight = nn.Parameter(torch.zeros(out, wide, 3, 3))
            self.scale = math.sqrt(2) / math.sqrt(9 * wide)
        self.up, self.out = up, out
        self.Noise = Weight(out)
        self.bias = nn.Parameter(torch.zeros(out))
        self.StyleMod = Equalised((2 * out, w_dim), 2 * out, gain=1.0)

    def forward(self, x, w, noise):
        if x is None:
            x = self.const.expand(w.shape[0], -1, -1, -1)
        else:
            x = F.conv2d(doubled(x) if self.up else x, self.weight * self.scale, padding=1)
        if self.up:
            row = torch.tensor([0.25, 0.5, 0.25], device=x.device, dtype=x.dtype)
            blur = torch.outer(row, row).expand(self.out, 1, 3, 3)
            x = F.conv2d(x, blur, padding=1, groups=self.out)
        x = x + noise * self.Noise.weight.reshape(1, -1, 1, 1) + self.bias.reshape(1, -1, 1, 1)
        x = leaky_relu(x)
        x = x - x.mean((2, 3), keepdim=True)
        x = x * torch.rsqrt(x.square().mean((2, 3), keepdim=True) + EPSILON)
        style = self.StyleMod.dense(w).reshape(-1, 2, self.out, 1, 1)
        return x * (style[:, 0] + 1) + style[:, 1]


class Synthesis(nn.Module):
    """The latents of the layers -> a picture of the stage."""

    def __init__(self, config):
        super().__init__()
        model = config["model"]
        self.stage = Stage(config)
        maps, w_dim = FeatureMaps(model), model["dlatent_size"]
        for i in range(halvings(model["resolution"], 4) + 1):
            pixels = 4 << i
            out = maps[pixels]
            wide = 0 if i == 0 else maps[pixels // 2]
            first = StyledLayer(wide, out, w_dim, up=i > 0)
            second = StyledLayer(out, out, w_dim, up=False)
            names = ("Const", "Conv") if i == 0 else ("Conv0_up", "Conv1")
            self.add_module("%dx%d" % (pixels, pixels), named(zip(names, (first, second))))
            self.add_module(
                "ToRGB_lod%d" % halvings(model["resolution"], pixels),
                Equalised((model["num_channels"], out, 1, 1), model["num_channels"], gain=1.0),
            )
            for k in (2 * i, 2 * i + 1):
                self.register_buffer("noise%d" % k, torch.zeros(1, 1, pixels, pixels))

    def forward(self, ws, noise):
        features, x = [], None
        for i, pixels in enumerate(self.stage.levels()):
            block = getattr(self, "%dx%d" % (pixels, pixels))
            for k, layer in zip((2 * i, 2 * i + 1), block.children()):
                x = layer(x, ws[:, k], noise_of(noise, getattr(self, "noise%d" % k)))
            features.append(x)
        return self.stage.paint(self, features)


class Generator(nn.Module):
    """Karras et al. 2019: z [N, z_dim], class [N] -> pictures [N, C, r, r] of its stage."""

    has_noise = True

    def __init__(self, config):
        super().__init__()
        model = config["model"]
        self.z_dim, self.classes = model["latent_size"], model["label_size"]
        self.num_ws = 2 * halvings(model["resolution"], 4) + 2
        self.mapping = Mapping(model)
        self.synthesis = Synthesis(config)
        self.register_buffer("dlatent_avg", torch.zeros(model["dlatent_size"]))

    def forward(self, z, label=None, psi=1.0, cutoff=None, noise="const"):
        w = self.mapping(z, label)
        ws = w.unsqueeze(1).expand(-1, self.num_ws, -1)
        return self.synthesis(truncated(ws, self.dlatent_avg, psi, cutoff), noise)
