# SPDX-License-Identifier: Apache-2.0
class Signal:
    """The signal behind layer i: cycles and samples per picture width, pixels a side, channels."""

    def __init__(self, model, i):
        layers, resolution = model["num_layers"], model["img_resolution"]
        done = min(i / (layers - model["num_critical"]), 1.0)

        def progress(first, last):
            return first * (last / first) ** done

        self.cutoff = progress(model["first_cutoff"], resolution / 2)
        last_stopband = resolution / 2 * model["last_stopband_rel"]
        stopband = progress(model["first_stopband"], last_stopband)
        self.rate = 1 << math.ceil(math.log2(min(2 * stopband, resolution)))
        with_margin = self.rate + 2 * model["margin_size"]
        self.size = with_margin if i < layers - 1 else resolution
        maps = min(model["channel_base"] / 2 / self.cutoff, model["channel_max"])
        self.channels = round(maps) if i < layers else model["img_channels"]


class FourierInput(nn.Module):
    """Plane waves, moved by a transform from w behind a given one, and mixed."""

    def __init__(self, signal, w_dim):
        super().__init__()
        self.signal = signal
        self.weight = nn.Parameter(torch.zeros(signal.channels, signal.channels))
        self.affine = FullyConnected(w_dim, 4)
        self.register_buffer("transform", torch.eye(3))
        self.register_buffer("freqs", torch.zeros(signal.channels, 2))
        self.register_buffer("phases", torch.zeros(signal.channels))

    def forward(self, w, transform):
        raw = self.affine(w)
        c, s, x, y = (raw / raw[:, :2].norm(dim=1, keepdim=True)).unbind(1)
        zero, one = torch.zeros_like(c), torch.ones_like(c)

        def matrix(*entries):
            return torch.stack(entries, 1).reshape(-1, 3, 3)

        rotation = matrix(c, -s, zero, s, c, zero, zero, zero, one)
        translation = matrix(one, zero, -x, zero, one, -y, zero, zero, one)
        given = self.transform if transform is None else transform.to(self.transform)
        m = rotation @ translation @ given
        phases = self.phases + (self.freqs @ m[:, :2, 2:]).squeeze(2)
        freqs = self.freqs @ m[:, :2, :2]
        # Waves that the transform moved above the bandlimit fade out.
        cutoff, rate, size = self.signal.cutoff, self.signal.rate, self.signal.size
        amplitudes = (1 - (freqs.norm(dim=2) - cutoff) / (rate / 2 - cutoff)).clamp(0, 1)
        middles = (torch.arange(size, device=w.device, dtype=w.dtype) + (0.5 - size / 2)) / rate
        along_x = middles * freqs[:, :, :1]
        along_y = middles * freqs[:, :, 1:] + phases.unsqueeze(2)
        waves = torch.sin((along_x.unsqueeze(2) + along_y.unsqueeze(3)) * (2 * math.pi))
        waves = waves * amplitudes.reshape(-1, self.signal.channels, 1, 1)
        weight = self.weight / math.sqrt(self.signal.channels)
        return F.conv2d(waves, weight.unsqueeze(2).unsqueeze(3))


def normalised(x, axes):
    """x over the root of its mean square."""
    return x * torch.rsqrt(x.square().mean(axes, keepdim=True))


class SynthesisLayer(nn.Module):
    """A modulated convolution, and a leaky ReLU at a higher rate than the signals around it."""

    def __init__(self, model, number, given, made):
        super().__init__()
        self.to_rgb = number == model["num_layers"]
        self.kernel = 1 if self.to_rgb else model["conv_kernel"]
        rate = max(given.rate, made.rate) * (1 if self.to_rgb else model["lrelu_upsampling"])
        self.up, self.down = rate // given.rate, rate // made.rate
        shape = (made.channels, given.channels, self.kernel, self.kernel)
        self.weight = nn.Parameter(torch.zeros(shape))
        self.bias = nn.Parameter(torch.zeros(made.channels))
        self.affine = FullyConnected(model["w_dim"], given.channels)
        self.register_buffer("magnitude_ema", torch.ones(()))
        critical = number >= model["num_layers"] - model["num_critical"]
        radial = model["use_radial_filters"] and not critical
        self.up_taps = self.add_filter("up_filter", model, self.up, False)
        self.down_taps = self.add_filter("down_filter", model, self.down, radial)
        # What the filters and the convolution take away at the borders (sec. C.1).
        wanted = (made.size - 1) * self.down + 1
        there = (given.size + self.kernel - 1) * self.up
        padding = wanted - there + self.up_taps + self.down_taps - 2
        before = (padding + self.up) // 2
        self.padding = (before, padding - before)
        self.bound, self.channels = model["conv_clamp"], made.channels

    def add_filter(self, name, model, factor, radial):
        """Returns how many taps it has along an axis."""
        taps = 1 if self.to_rgb or factor == 1 else model["filter_size"] * factor
        shape = (taps, taps) if radial else (taps,)
        self.register_buffer(name, torch.zeros(shape) if taps > 1 else None)
        return taps

    def modulated(self, x, styles):
        weight, norm = self.weight, None
        if self.to_rgb:
            styles = styles / math.sqrt(weight[0].numel())
        else:
            weight, styles = normalised(weight, (1, 2, 3)), normalised(styles, (0, 1))
            energy = weight.square().sum((2, 3))
            norm = torch.rsqrt(F.linear(styles.square(), energy) + EPSILON)
        styles = styles * torch.rsqrt(self.magnitude_ema)
        x = x * styles.reshape(styles.shape[0], -1, 1, 1)
        x = F.conv2d(x, weight, padding=self.kernel - 1)
        return x if norm is None else x * norm.reshape(norm.shape[0], -1, 1, 1)

    def upsampled(self, x):
        """Zeros between the pixels, padding, and the FIR filter along both axes."""
        if self.up_filter is None:
            return F.pad(x, self.padding * 2)
        # The filter reaches over every border; what is not wanted of that is cropped.
        taps, channels = self.up_taps, self.channels
        before, after = self.padding[0] - taps + 1, self.padding[1] - taps + self.up
        row = (self.up_filter * self.up).expand(channels, 1, 1, taps)
        x = F.conv_transpose2d(x, row, stride=(1, self.up), groups=channels)
        x = F.pad(x, (before, after, 0, 0))
        x = F.conv_transpose2d(x, row.transpose(2, 3), stride=(self.up, 1), groups=channels)
        return F.pad(x, (0, 0, before, after))

    def downsampled(self, x):
        """The FIR filter along both axes, or of two axes; then every `down`-th pixel."""
        taps, channels = self.down_taps, self.channels
        if self.down_filter is None:
            return x
        if self.down_filter.dim() == 2:
            both = self.down_filter.flip((0, 1)).expand(channels, 1, taps, taps)
            return F.conv2d(x, both, stride=self.down, groups=channels)
        row = self.down_filter.flip(0).expand(channels, 1, 1, taps)
        x = F.conv2d(x, row, stride=(1, self.down), groups=channels)
        return F.conv2d(x, row.transpose(2, 3), stride=(self.down, 1), groups=channels)

    def forward(self, x, w):
        x = self.modulated(x, self.affine(w)) + self.bias.reshape(1, -1, 1, 1)
        x = self.upsampled(x)
        if not self.to_rgb:
            x = leaky_relu(x) * math.sqrt(2)
        if self.bound is not None:
            x = x.clamp(-self.bound, self.bound)
        return self.downsampled(x)


class Generator(nn.Module):
    """Karras et al. 2021: z [N, z_dim], class [N] or vectors -> pictures [N, C, R, R].

    `transform`, [3, 3] or [N, 3, 3], moves the pictures instead of the model's own one. It maps
    positions in the picture that is made to positions in the picture without it: in picture
    widths, from the middle, x to the right, y down.
    """

    has_noise, takes_vectors = False, True

    def __init__(self, config):
        super().__init__()
        model = config["model"]
        self.z_dim, self.classes = model["z_dim"], model["c_dim"]
        self.num_ws, self.scale = model["num_layers"] + 2, model["output_scale"]
        signals = [Signal(model, i) for i in range(model["num_layers"] + 1)]
        modules = [("input", FourierInput(signals[0], model["w_dim"]))]
        for i, made in enumerate(signals):
            layer = SynthesisLayer(model, i, signals[max(i - 1, 0)], made)
            modules.append(("L%d_%d_%d" % (i, made.size, made.channels), layer))
        self.synthesis = named(modules)
        self.mapping = Mapping(model)

    def forward(self, z, label=None, psi=1.0, cutoff=None, transform=None):
        w = self.mapping(z, label)
        ws = w.unsqueeze(1).expand(-1, self.num_ws, -1)
        ws = truncated(ws, self.mapping.w_avg, psi, cutoff)
        first, *layers = self.synthesis.children()
        x = first(ws[:, 0], transform)
        for i, layer in enumerate(layers):
            x = layer(x, ws[:, i + 1])
        return x * self.scale

    def moved(self, degrees, right, down):
        """The `transform` of pictures that are turned counter-clockwise, then moved."""
        c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        rows = [[c, -s, s * down - c * right], [s, c, -s * right - c * down], [0.0, 0.0, 1.0]]
        return torch.tensor(rows)
