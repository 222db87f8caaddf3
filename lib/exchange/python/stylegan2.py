# SPDX-License-Identifier: Apache-2.0
def filtered(x, taps):
    """A FIR filter on each channel, with one row and column more on each side."""
    channels = x.shape[1]
    return F.conv2d(x, taps.expand(channels, 1, 4, 4), padding=1, groups=channels)


def doubled(x, taps):
    """Twice the size: zeros between the pixels, then the FIR filter."""
    channels = x.shape[1]
    kernel = (taps * 4).expand(channels, 1, 4, 4)
    return F.conv_transpose2d(x, kernel, stride=2, padding=1, groups=channels)


class Bounded:
    """The end of a layer: a gain, and activations kept within +-bound where there is a bound."""

    def __init__(self, bound):
        self.bound = bound

    def __call__(self, x, gain):
        x = x * gain
        return x if self.bound is None else x.clamp(-self.bound * gain, self.bound * gain)


class ModulatedLayer(nn.Module):
    """A convolution whose weights are scaled by a style (Karras et al. 2020, sec. 2.2)."""

    def __init__(self, wide, out, w_dim, size, up, bound):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out, wide, 3, 3))
        self.noise_strength = nn.Parameter(torch.zeros(()))
        self.bias = nn.Parameter(torch.zeros(out))
        self.register_buffer("resample_filter", torch.zeros(4, 4))
        self.register_buffer("noise_const", torch.zeros(size))
        self.affine = FullyConnected(w_dim, wide)
        self.up, self.end = up, Bounded(bound)

    def forward(self, x, w, noise, gain=1.0):
        styles = self.affine(w)
        x = x * styles.reshape(styles.shape[0], -1, 1, 1)
        if self.up:
            x = F.conv_transpose2d(x, self.weight.transpose(0, 1), stride=2)
            x = filtered(x, self.resample_filter.flip((0, 1)) * 4)
        else:
            x = F.conv2d(x, self.weight, padding=1)
        energy = self.weight.square().sum((2, 3))
        norm = torch.rsqrt(F.linear(styles.square(), energy) + EPSILON)
        x = x * norm.reshape(norm.shape[0], -1, 1, 1)
        x = x + noise_of(noise, self.noise_const) * self.noise_strength
        x = leaky_relu(x + self.bias.reshape(1, -1, 1, 1))
        return self.end(x, math.sqrt(2) * gain)


class ToRgb(nn.Module):
    def __init__(self, wide, channels, w_dim, bound):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, wide, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.affine = FullyConnected(w_dim, wide)
        self.scale, self.end = 1 / math.sqrt(wide), Bounded(bound)

    def forward(self, x, w):
        styles = self.affine(w) * self.scale
        x = F.conv2d(x * styles.reshape(styles.shape[0], -1, 1, 1), self.weight)
        return self.end(x + self.bias.reshape(1, -1, 1, 1), 1.0)


class Skip(nn.Module):
    """The way around a residual block."""

    def __init__(self, wide, out):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out, wide, 1, 1))
        self.register_buffer("resample_filter", torch.zeros(4, 4))
        self.scale = 1 / math.sqrt(wide)

    def forward(self, x):
        return doubled(F.conv2d(x, self.weight * self.scale), self.resample_filter)


class Block(nn.Module):
    """The layers of one resolution."""

    def __init__(self, model, r, size, last):
        super().__init__()
        how, w_dim = model["synthesis_kwargs"], model["w_dim"]
        bound, architecture = how["conv_clamp"], how["architecture"]
        base, most = how["channel_base"], how["channel_max"]
        out, wide = min(base // r, most), min(2 * base // r, most)
        self.register_buffer("resample_filter", torch.zeros(4, 4))
        if r == 4:
            self.const = nn.Parameter(torch.zeros((out,) + size))
        else:
            self.conv0 = ModulatedLayer(wide, out, w_dim, size, True, bound)
        self.conv1 = ModulatedLayer(out, out, w_dim, size, False, bound)
        self.paints = architecture == "skip" or last
        if self.paints:
            self.torgb = ToRgb(out, model["img_channels"], w_dim, bound)
        self.residual = architecture == "resnet" and r > 4
        if self.residual:
            self.skip = Skip(wide, out)
        self.first_w = 0 if r == 4 else 2 * int(math.log2(r // 4)) - 1

    def forward(self, x, picture, ws, noise):
        i = self.first_w
        if x is None:
            x = self.const.unsqueeze(0).expand(ws.shape[0], -1, -1, -1)
            x = self.conv1(x, ws[:, i], noise)
        else:
            around = self.skip(x) * math.sqrt(0.5) if self.residual else None
            x = self.conv0(x, ws[:, i], noise)
            i += 1
            x = self.conv1(x, ws[:, i], noise, math.sqrt(0.5) if self.residual else 1.0)
            x = x if around is None else around + x
        if picture is not None:
            picture = doubled(picture, self.resample_filter)
        if self.paints:
            # The next block's first convolution uses this w again.
            painted = self.torgb(x, ws[:, i + 1])
            picture = painted if picture is None else picture + painted
        return x, picture


class Generator(nn.Module):
    """Karras et al. 2020: z [N, z_dim], class [N] or vectors -> pictures [N, C, H, W]."""

    has_noise, takes_vectors = True, True

    def __init__(self, config):
        super().__init__()
        model = config["model"]
        self.z_dim, self.classes = model["z_dim"], model["c_dim"]
        height, width = size_of(model["img_resolution"])
        doublings = 0
        while min(height, width) >> doublings >= 8:
            doublings += 1
        self.num_ws = 2 * doublings + 2
        self.names = ["b%d" % (4 << i) for i in range(doublings + 1)]
        blocks = []
        for i, name in enumerate(self.names):
            size = (height >> doublings - i, width >> doublings - i)
            blocks.append((name, Block(model, 4 << i, size, i == doublings)))
        self.synthesis = named(blocks)
        self.mapping = Mapping(model)

    def forward(self, z, label=None, psi=1.0, cutoff=None, noise="const"):
        w = self.mapping(z, label)
        ws = w.unsqueeze(1).expand(-1, self.num_ws, -1)
        ws = truncated(ws, self.mapping.w_avg, psi, cutoff)
        x = picture = None
        for name in self.names:
            x, picture = getattr(self.synthesis, name)(x, picture, ws, noise)
        return picture
