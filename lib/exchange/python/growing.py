# SPDX-License-Identifier: Apache-2.0
class Equalised(nn.Module):
    """A weight that is scaled as it is used (Karras et al. 2018, sec. 4.1), and a bias."""

    def __init__(self, shape, bias, gain=math.sqrt(2), rate=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))
        self.bias = nn.Parameter(torch.zeros(bias))
        fan_in = self.weight[0].numel()
        self.scale, self.rate = gain / math.sqrt(fan_in) * rate, rate

    def dense(self, x):
        return F.linear(x, self.weight * self.scale, self.bias * self.rate)

    def conv(self, x):
        weight = self.weight * self.scale
        return F.conv2d(x, weight, self.bias, padding=weight.shape[2] // 2)


def doubled(x):
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def halvings(resolution, pixels):
    return int(math.log2(resolution // pixels))


class FeatureMaps:
    """How many features the layers of a level have."""

    def __init__(self, model):
        self.base, self.decay = model["fmap_base"], model["fmap_decay"]
        self.most = model["fmap_max"]

    def __getitem__(self, pixels):
        stage = math.log2(pixels) - 1
        return min(max(int(self.base / 2.0 ** (stage * self.decay)), 1), self.most)


class Stage:
    """Where the growth of the network stands: pixels, and the weight of its newest layers."""

    def __init__(self, config):
        stage = config.get("stage") or {}
        self.resolution = config["model"]["resolution"]
        self.pixels = stage.get("level", self.resolution)
        self.alpha = stage.get("alpha", 1.0)

    def levels(self):
        return [4 << i for i in range(halvings(self.pixels, 4) + 1)]

    def paint(self, network, features):
        """The picture of the features at each level, the last two of them blended."""
        rgb = [
            getattr(network, "ToRGB_lod%d" % halvings(self.resolution, pixels))
            for pixels in self.levels()
        ]
        picture = rgb[-1].conv(features[-1])
        if self.alpha == 1 or len(features) == 1:
            return picture
        below = doubled(rgb[-2].conv(features[-2]))
        return below + (picture - below) * self.alpha
