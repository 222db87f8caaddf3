# SPDX-License-Identifier: Apache-2.0
class FullyConnected(nn.Module):
    """A product and a bias, scaled as they are used."""

    def __init__(self, wide, out, rate=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out, wide))
        self.bias = nn.Parameter(torch.zeros(out))
        self.gain, self.rate = rate / math.sqrt(wide), rate

    def forward(self, x):
        return F.linear(x, self.weight * self.gain, self.bias * self.rate)


class Mapping(nn.Module):
    """z and the class, or a vector of c_dim numbers -> w."""

    def __init__(self, model):
        super().__init__()
        how = model["mapping_kwargs"]
        w_dim, self.z_dim, self.c_dim = model["w_dim"], model["z_dim"], model["c_dim"]
        wide = self.z_dim
        if self.c_dim > 0:
            embedding = how.get("embed_features") or w_dim
            self.embed = FullyConnected(self.c_dim, embedding)
            wide += embedding
        self.depth = how["num_layers"]
        for i in range(self.depth):
            out = w_dim if i + 1 == self.depth else how.get("layer_features") or w_dim
            self.add_module("fc%d" % i, FullyConnected(wide, out, how["lr_multiplier"]))
            wide = out
        self.register_buffer("w_avg", torch.zeros(w_dim))

    def forward(self, z, label):
        parts = [pixel_norm(z)] if self.z_dim > 0 else []
        if self.c_dim > 0:
            numbers = one_hot(label, self.c_dim, self.w_avg.dtype)
            parts.append(pixel_norm(self.embed(numbers)))
        x = torch.cat(parts, 1)
        for i in range(self.depth):
            x = leaky_relu(getattr(self, "fc%d" % i)(x)) * math.sqrt(2)
        return x
