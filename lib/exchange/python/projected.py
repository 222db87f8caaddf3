# SPDX-License-Identifier: Apache-2.0
# Keys of the streams "noise/0" to "noise/15" of seed 0, from which gantrain draws constant noise.
NOISE_KEYS = [
    0xF434D0FC22239188, 0x77FD344A56946BE0, 0x34DB78B50F814E31, 0xE8A7F9C6559574B9,
    0x91F84D2C06127D82, 0x2AAE7A6D16CAD9FB, 0x6DE95D0F722955EC, 0x8D7984103C754141,
    0x74E2B4ACB26EACA5, 0x926A4A5DC9736819, 0x177432AD4F45C995, 0x1C440D3F2CA48242,
    0xCA87E97100A846A2, 0x48579A33D1F43FD3, 0x27F5C719E04CDABD, 0xA874B903A834E484,
]


def philox_normals(key, count):
    """The first numbers of gantrain's stream of that key: Philox 4x32-10 and Box-Muller."""
    low = 0xFFFFFFFF
    zero = torch.zeros((count + 3) // 4, dtype=torch.int64)
    words = [torch.arange((count + 3) // 4), zero, zero, zero]
    k0, k1 = key & low, key >> 32
    for _ in range(10):
        p0, p1 = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            ((p1 >> 32) & low) ^ words[1] ^ k0,
            p1 & low,
            ((p0 >> 32) & low) ^ words[3] ^ k1,
            p0 & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    unit = [word.double() * 2.0**-32 for word in words]
    normals = []
    for u, v in ((unit[0], unit[1]), (unit[2], unit[3])):
        radius, angle = (-2 * (1 - u).log()).sqrt(), 2 * math.pi * v
        normals += [radius * angle.cos(), radius * angle.sin()]
    return torch.stack(normals, 1).flatten()[:count].float()


class SpectralWeight(nn.Module):
    """A weight divided by its largest singular value, as training has estimated it."""

    def __init__(self, shape, bias=0, axis=0):
        super().__init__()
        self.axis = axis
        self.weight_orig = nn.Parameter(torch.zeros(shape))
        self.register_buffer("weight_u", torch.zeros(shape[axis]))
        self.register_buffer("weight_v", torch.zeros(math.prod(shape) // shape[axis]))
        self.bias = nn.Parameter(torch.zeros(bias)) if bias else None

    def normalised(self):
        matrix = self.weight_orig.transpose(0, self.axis).flatten(1)
        return self.weight_orig / torch.dot(self.weight_u, torch.mv(matrix, self.weight_v))

    def forward(self, x, padding=1):
        return F.conv2d(x, self.normalised(), self.bias, padding=padding)


class ConditionalBatchNorm(nn.Module):
    def __init__(self, channels, features):
        super().__init__()
        self.gain = SpectralWeight([channels, features], channels)
        self.bias = SpectralWeight([channels, features], channels)
        self.register_buffer("stored_mean", torch.zeros(channels))
        self.register_buffer("stored_var", torch.ones(channels))

    def forward(self, x, y):
        gain, bias = (
            F.linear(y, layer.normalised(), layer.bias)[:, :, None, None]
            for layer in (self.gain, self.bias)
        )
        return F.batch_norm(x, self.stored_mean, self.stored_var) * (1 + gain) + bias


class Noise(nn.Module):
    """x plus a scalar times noise: one drawn pattern for all pictures, or drawn afresh."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x, layer, mode):
        if mode == "none":
            return x
        height, width = x.shape[2:]
        if mode == "random":
            drawn = torch.randn(x.shape[0], 1, height, width)
        else:
            drawn = philox_normals(NOISE_KEYS[layer], height * width).reshape(1, 1, height, width)
        return x + self.weight * drawn.to(x)


class FeatureBlock(nn.Module):
    """Twice as large; then once (lite) or twice: convolution, noise, batch norm, gate."""

    def __init__(self, model, wide, out, number):
        super().__init__()
        self.lite, self.conditional = model["synthesis_kwargs"]["lite"], model["c_dim"] > 0
        self.first_noise = 2 * number
        self.steps = []
        for i in range(1 if self.lite else 2):
            which = "" if self.lite else str(i + 1)
            names = ["conv" + which, "noise", "bn" + which]
            if not self.conditional:
                places = (1, None, 2) if self.lite else (4 * i + 1, 4 * i + 2, 4 * i + 3)
                names = [str(place) for place in places]
            self.add_module(names[0], SpectralWeight([2 * out, out if i else wide, 3, 3]))
            if not self.lite and not hasattr(self, names[1]):
                self.add_module(names[1], Noise())
            norm = (
                ConditionalBatchNorm(2 * out, model["z_dim"])
                if self.conditional
                else nn.BatchNorm2d(2 * out)
            )
            self.add_module(names[2], norm)
            self.steps.append(names)

    def forward(self, x, y, mode):
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        for i, (convolution, noise, norm) in enumerate(self.steps):
            x = getattr(self, convolution)(x)
            if not self.lite:
                x = getattr(self, noise)(x, self.first_noise + i, mode)
            x = getattr(self, norm)(x, y) if self.conditional else getattr(self, norm)(x)
            x = F.glu(x, 1)
        return x


class SkipExcitation(nn.Module):
    """Scales the maps of `large` by a function of `small`."""

    def __init__(self, wide, out):
        super().__init__()
        self.main = named(
            [("1", SpectralWeight([out, wide, 4, 4])), ("3", SpectralWeight([out, out, 1, 1]))]
        )

    def forward(self, small, large):
        first, second = self.main.children()
        pooled = F.avg_pool2d(small, small.shape[2] // 4)
        return large * torch.sigmoid(second(F.silu(first(pooled, 0)), 0))


class Generator(nn.Module):
    """FastGAN (Liu et al. 2021) as projected GANs have it: z [N, z_dim], class [N] -> pictures."""

    num_ws, has_noise = 0, True  # the lite network has none, and takes every mode

    def __init__(self, config):
        super().__init__()
        model = config["model"]
        self.z_dim, self.classes = model["z_dim"], model["c_dim"]
        self.resolution = model["img_resolution"]

        def width(r):
            times = 16 if r <= 4 else 64 / r if r <= 16 else 2 if r <= 64 else 128 / r
            return max(int(times * model["ngf"]), 1)

        start = SpectralWeight([self.z_dim, 2 * width(4), 4, 4], axis=1)
        init = named([("0", start), ("1", nn.BatchNorm2d(2 * width(4)))])
        last = self.resolution if self.resolution < 128 else max(self.resolution, 256)
        sizes = [8 << i for i in range(8) if 8 << i <= last]
        children = [("init", named([("init", init)]))]
        for i, r in enumerate(sizes):
            children.append(("feat_%d" % r, FeatureBlock(model, width(r // 2), width(r), i)))
        for r in sizes:
            if 64 <= r <= 512:
                children.append(("se_%d" % r, SkipExcitation(width(r // 16), width(r))))
        channels = model["img_channels"]
        to_big = SpectralWeight([channels, width(self.resolution), 3, 3], channels)
        children.append(("to_big", to_big))
        if self.classes:
            rows = model["synthesis_kwargs"]["num_classes"]
            children.append(("embed", nn.Embedding(rows, self.z_dim)))
        self.synthesis = named(children)

    def forward(self, z, label=None, noise="const"):
        layers = self.synthesis
        y = layers.embed(label) if self.classes else None
        start, norm = layers.init.init.children()
        x = F.conv_transpose2d(pixel_norm(z)[:, :, None, None], start.normalised())
        maps = {4: F.glu(norm(x), 1)}
        r = 8
        while r <= self.resolution:
            maps[r] = getattr(layers, "feat_%d" % r)(maps[r // 2], y, noise)
            if 64 <= r <= 512:
                maps[r] = getattr(layers, "se_%d" % r)(maps[r // 16], maps[r])
            r *= 2
        return layers.to_big(maps[self.resolution])
