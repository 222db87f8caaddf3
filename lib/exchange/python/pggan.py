# SPDX-License-Identifier: Apache-2.0
class Generator(nn.Module):
    """Karras et al. 2018, table 2: z [N, z_dim] -> pictures [N, C, r, r] of its stage."""

    num_ws, has_noise, classes = 0, False, 0

    def __init__(self, config):
        super().__init__()
        model = config["model"]
        self.z_dim, self.stage = model["latent_size"], Stage(config)
        self.first = "Conv0_up" if model["fused_scale"] else "Conv0"
        maps = FeatureMaps(model)
        for i in range(halvings(model["resolution"], 4) + 1):
            pixels = 4 << i
            out = maps[pixels]
            if i == 0:
                dense = Equalised((out * 16, self.z_dim), out, gain=math.sqrt(2) / 4)
                block = [("Dense", dense), ("Conv", Equalised((out, out, 3, 3), out))]
            else:
                above = Equalised((out, maps[pixels // 2], 3, 3), out)
                block = [(self.first, above), ("Conv1", Equalised((out, out, 3, 3), out))]
            self.add_module("%dx%d" % (pixels, pixels), named(block))
            self.add_module(
                "ToRGB_lod%d" % halvings(model["resolution"], pixels),
                Equalised((model["num_channels"], out, 1, 1), model["num_channels"], gain=1.0),
            )

    def forward(self, z):
        features = []
        for pixels in self.stage.levels():
            block = getattr(self, "%dx%d" % (pixels, pixels))
            if pixels == 4:
                dense = block.Dense
                x = F.linear(pixel_norm(z), dense.weight * dense.scale)
                x = x.reshape(z.shape[0], -1, 4, 4) + dense.bias.reshape(1, -1, 1, 1)
                x = pixel_norm(leaky_relu(x))
                x = pixel_norm(leaky_relu(block.Conv.conv(x)))
            else:
                above = getattr(block, self.first)
                x = pixel_norm(leaky_relu(above.conv(doubled(features[-1]))))
                x = pixel_norm(leaky_relu(block.Conv1.conv(x)))
            features.append(x)
        return self.stage.paint(self, features)
