# SPDX-License-Identifier: Apache-2.0
class Generator(nn.Module):
    """Radford, Metz & Chintala 2016: z [N, z_dim] -> pictures [N, C, H, W]."""

    num_ws, has_noise, classes = 0, False, 0

    def __init__(self, config):
        super().__init__()
        model = config["model"]
        self.z_dim = model["z_dim"]
        height, width = size_of(model["img_resolution"])
        doublings = 0
        while min(height, width) >= 8:
            height, width, doublings = height // 2, width // 2, doublings + 1
        layers, wide = [], self.z_dim
        for i in range(doublings + 1):
            hidden = i < doublings
            out = max(1, model["channels"] >> i) if hidden else model["img_channels"]
            plain = model["norm"] == "none"
            kernel, stride, padding = ((height, width), 1, 0) if i == 0 else (4, 2, 1)
            layers.append(
                nn.ConvTranspose2d(wide, out, kernel, stride, padding, bias=hidden and plain)
            )
            if hidden:
                layers += [nn.Identity() if plain else nn.BatchNorm2d(out, eps=1e-5), nn.ReLU()]
            wide = out
        self.main = nn.Sequential(*layers)

    def forward(self, z):
        return torch.tanh(self.main(z.reshape(z.shape[0], -1, 1, 1)))
