# SPDX-License-Identifier: Apache-2.0
DTYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64}


def read_safetensors(path):
    """Name -> tensor."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + at for at in entry["data_offsets"])
        data = bytearray(content[begin:end])
        flat = torch.frombuffer(data, dtype=DTYPES[entry["dtype"]]) if data else torch.empty(0)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def load_generator(folder=FOLDER):
    """The generator with its weights, in evaluation mode."""
    with open(os.path.join(folder, "config.json")) as file:
        generator = Generator(json.load(file))
    generator.load_state_dict(read_safetensors(os.path.join(folder, "model.safetensors")))
    return generator.eval().requires_grad_(False)


def latents(seeds, z_dim):
    """The latent of each seed, as gantrain and numpy's RandomState(seed).randn draw it."""
    return torch.tensor([normals(seed, z_dim) for seed in seeds], dtype=torch.float64).float()


def normals(seed, count):
    words = [seed]  # MT19937, seeded by one word
    for i in range(1, 624):
        words.append((1812433253 * (words[-1] ^ words[-1] >> 30) + i) & 0xFFFFFFFF)
    draws = random.Random()
    draws.setstate((3, tuple(words) + (624,), None))
    result = []
    while len(result) < count:  # in pairs, by the polar method
        a, b = 2 * draws.random() - 1, 2 * draws.random() - 1
        square = a * a + b * b
        if 0 < square < 1:
            scale = math.sqrt(-2 * math.log(square) / square)
            result += [scale * b, scale * a]
    return result[:count]


def read_npy(path):
    """float32 or float64 in C order, as float32."""
    with open(path, "rb") as file:
        content = file.read()
    if content[:6] != b"\x93NUMPY":
        sys.exit("%s: not a .npy file" % path)
    wide = content[6] > 1
    (length,) = struct.unpack("<I" if wide else "<H", content[8 : 12 if wide else 10])
    begin = (12 if wide else 10) + length
    header = ast.literal_eval(content[begin - length : begin].decode("latin1"))
    types = {"<f4": torch.float32, "<f8": torch.float64}
    if header["descr"] not in types or header["fortran_order"]:
        sys.exit("%s: float32 or float64 in C order is needed" % path)
    flat = torch.frombuffer(bytearray(content[begin:]), dtype=types[header["descr"]])
    return flat.reshape(header["shape"]).float()


def write_npy(path, picture):
    header = str({"descr": "<f4", "fortran_order": False, "shape": tuple(picture.shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(bytes_of(picture.float()))


def bytes_of(tensor):
    return bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())


def write_png(path, picture):
    """[C, H, W]: grey, grey and alpha, RGB, RGB and alpha; of more channels a file each."""
    if len(picture) > 4:
        for channel in range(len(picture)):
            write_png("%s.c%d.png" % (path[:-4], channel), picture[channel : channel + 1])
        return
    levels = (picture * 127.5 + 128).clamp(0, 255).to(torch.uint8)
    channels, height, width = levels.shape
    rows = levels.permute(1, 2, 0).reshape(height, width * channels)
    rows = torch.cat([torch.zeros(height, 1, dtype=torch.uint8), rows], 1)

    def chunk(kind, data):
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    size = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size))
        file.write(chunk(b"IDAT", zlib.compress(bytes_of(rows))) + chunk(b"IEND", b""))


def self_test(generator):
    """Compares with what gantrain drew; returns the exit status."""
    with open(os.path.join(FOLDER, "self_test.json")) as file:
        test = json.load(file)
    largest = 0.0
    for case in test["cases"]:
        z = latents([case["seed"]], generator.z_dim)
        given = {"label": torch.tensor([case["class"]])} if generator.classes else {}
        if generator.num_ws:
            given["psi"] = case["trunc"]
        picture = generator(z, **given)[0]
        if list(picture.shape) != case["shape"]:
            print("seed %d: shape %s, not %s" % (case["seed"], list(picture.shape), case["shape"]))
            return 1
        drawn = picture.flatten()[:: case["stride"]].double()
        apart = (drawn - torch.tensor(case["values"], dtype=torch.float64)).abs()
        # A value that is not a number must not pass.
        largest = max(largest, torch.nan_to_num(apart, nan=math.inf).max().item())
    good = largest <= test["tolerance"]
    print("%s: largest difference %.3g" % ("passed" if good else "FAILED", largest))
    return 0 if good else 1


def export_onnx(generator, path):
    given = (torch.zeros(1, generator.z_dim),)
    names = ["z"]
    if generator.classes:
        given += (torch.zeros(1, dtype=torch.int64),)
        names.append("label")
    torch.onnx.export(
        generator, given, path, input_names=names, output_names=["pictures"], dynamo=True
    )


def widths(text):
    """RIGHT,DOWN as two numbers."""
    right, down = (float(part) for part in text.split(","))
    return right, down


def main():
    parser = argparse.ArgumentParser(description="Pictures from a generator trained with gantrain.")
    parser.add_argument("--seed", type=int, default=0, help="the picture of this seed (0)")
    parser.add_argument("--z", help="latents [N, z_dim] in a .npy file instead; the first is drawn")
    parser.add_argument("--class", type=int, dest="label", help="of a conditional model (0)")
    parser.add_argument("--trunc", type=float, default=1.0, help="psi, of style-based models (1)")
    parser.add_argument("--noise-mode", choices=["const", "random", "none"], default="const")
    parser.add_argument("--rotate", type=float, default=0.0, help="degrees, of StyleGAN3")
    parser.add_argument(
        "--translate", type=widths, metavar="RIGHT,DOWN", help="picture widths, of StyleGAN3"
    )
    parser.add_argument("-o", "--output", help="NAME.png or NAME.npy")
    parser.add_argument("--self-test", action="store_true", help="draw what gantrain drew?")
    parser.add_argument("--onnx", metavar="FILE", help="write the generator in the ONNX format")
    args = parser.parse_args()
    generator = load_generator()
    if args.self_test:
        sys.exit(self_test(generator))
    if args.onnx:
        export_onnx(generator, args.onnx)
    if not args.output:
        if args.onnx:
            return
        parser.error("what is to be done? -o FILE.png, --self-test or --onnx FILE")
    if not 0 <= args.seed < 2**32:
        parser.error("--seed %d: 0 to 4294967295 is allowed" % args.seed)
    z = read_npy(args.z)[:1] if args.z else latents([args.seed], generator.z_dim)
    given = {}
    if generator.classes:
        label = args.label or 0
        if not 0 <= label < generator.classes:
            parser.error("--class %d: the model has %d classes" % (label, generator.classes))
        given["label"] = torch.tensor([label])
    if generator.num_ws:
        given["psi"] = args.trunc
    if generator.has_noise:
        given["noise"] = args.noise_mode
    if args.rotate or args.translate:
        if not hasattr(generator, "moved"):
            parser.error("--rotate, --translate: only StyleGAN3's pictures can be moved")
        given["transform"] = generator.moved(args.rotate, *(args.translate or (0.0, 0.0)))
    picture = generator(z, **given)[0]
    (write_npy if args.output.endswith(".npy") else write_png)(args.output, picture)


if __name__ == "__main__":
    main()
