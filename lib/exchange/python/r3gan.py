# SPDX-License-Identifier: Apache-2.0
class Convolution(nn.Module):
    """Keeps the size; the weight lies one module below."""

    def __init__(self, wide, out, kernel=1, groups=1):
        super().__init__()
        self.Layer = nn.Conv2d(wide, out, kernel, padding=kernel // 2, groups=groups, bias=False)

    def forward(self, x):
        return self.Layer(x)


class BiasedActivation(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.Bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        return leaky_relu(x + self.Bias.reshape(1, -1, 1, 1))


class ResidualBlock(nn.Module):
    """An inverted bottleneck around a grouped convolution."""

    def __init__(self, width, cardinality, expansion):
        super().__init__()
        inner = width * expansion
        self.LinearLayer1 = Convolution(width, inner)
        self.LinearLayer2 = Convolution(inner, inner, 3, cardinality)
        self.LinearLayer3 = Convolution(inner, width)
        self.NonLinearity1 = BiasedActivation(inner)
        self.NonLinearity2 = BiasedActivation(inner)

    def forward(self, x):
        y = self.NonLinearity1(self.LinearLayer1(x))
        return x + self.LinearLayer3(self.NonLinearity2(self.LinearLayer2(y)))


class Resampler(nn.Module):
    """Twice as large, with the filter [1, 3, 3, 1] along both axes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("Kernel", torch.zeros(4, 4))

    def forward(self, x):
        channels = x.shape[1]
        kernel = 4 * self.Kernel.flip(0, 1).expand(channels, 1, 4, 4)
        return F.conv_transpose2d(x, kernel, stride=2, padding=1, groups=channels)


class Transition(nn.Module):
    def __init__(self, wide, out):
        super().__init__()
        self.Resampler = Resampler()
        self.LinearLayer = Convolution(wide, out) if wide != out else None

    def forward(self, x):
        return self.Resampler(x if self.LinearLayer is None else self.LinearLayer(x))


class Basis(nn.Module):
    """Learned pictures times a linear function of x."""

    def __init__(self, wide, out, size):
        super().__init__()
        self.Basis = nn.Parameter(torch.zeros(out, *size))
        self.LinearLayer = nn.Linear(wide, out, bias=False)

    def forward(self, x):
        return self.Basis * self.LinearLayer(x).reshape(x.shape[0], -1, 1, 1)


class Generator(nn.Module):
    """Huang et al. 2024: z [N, z_dim], class [N] or vectors -> pictures [N, C, H, W]."""

    num_ws, has_noise, takes_vectors = 0, False, True

    def __init__(self, config):
        super().__init__()
        model = config["model"]
        self.z_dim, self.classes = model["NoiseDimension"], model["c_dim"]
        widths, last = model["WidthPerStage"], len(model["WidthPerStage"]) - 1
        height, width = size_of(model["img_resolution"])
        embedding = model["ConditionEmbeddingDimension"] if self.classes else 0
        stages = []
        for i, wide in enumerate(widths):
            first = (
                Transition(widths[i - 1], wide)
                if i
                else Basis(self.z_dim + embedding, wide, (height >> last, width >> last))
            )
            cardinality, expansion = model["CardinalityPerStage"][i], model["ExpansionFactor"]
            blocks = [
                ResidualBlock(wide, cardinality, expansion)
                for _ in range(model["BlocksPerStage"][i])
            ]
            stages.append((str(i), named([("Layers", nn.Sequential(first, *blocks))])))
        self.Model = named([("MainLayers", named(stages))])
        self.Model.AggregationLayer = Convolution(widths[-1], model["img_channels"])
        if self.classes:
            self.Model.EmbeddingLayer = nn.Linear(self.classes, embedding, bias=False)

    def forward(self, z, label=None):
        x = z
        if self.classes:
            y = one_hot(label, self.classes, z.dtype)
            x = torch.cat([z, self.Model.EmbeddingLayer(y)], 1)
        for stage in self.Model.MainLayers.children():
            x = stage.Layers(x)
        return self.Model.AggregationLayer(x)
