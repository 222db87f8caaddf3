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
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    generator = Generator(config)
    generator.depth = config.get("depth", 8)  # bits of its pictures
    generator.table = config["classes"]["table"]
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


def has_vectors(generator):
    """Whether it was trained with labels of several numbers, not with one class a picture."""
    return generator.classes > 0 and isinstance(generator.table, dict)


def first_label(generator):
    """A label that pictures can be drawn with: that of a real one, or class 0."""
    if not has_vectors(generator) or not generator.table["examples"]:
        return torch.tensor([0])
    return torch.tensor(generator.table["examples"][:1])


def usual_label(generator):
    """Numbers of a label that nobody gives: 0 of a class, else the mean of the data."""
    if not has_vectors(generator):
        return [0.0] * generator.classes
    return [0.0 if row["yes_or_no"] else row["mean"] for row in generator.table["attributes"]]


def class_label(number, generator):
    """A class, or, of labels that are vectors, its 1 among numbers as usual."""
    if not 0 <= number < generator.classes:
        raise ValueError("%d: the model has %d classes" % (number, generator.classes))
    if not has_vectors(generator):
        return torch.tensor([number])
    if not generator.table["attributes"][number]["yes_or_no"]:
        raise ValueError("%d: is no class, but a value; --label" % number)
    row = usual_label(generator)
    row[number] = 1.0
    return torch.tensor([row])


def place_of(name, generator):
    """Of a number of labels that are vectors, by its name or its place."""
    table = generator.table
    rows = table["attributes"] if isinstance(table, dict) else table
    names = [row["name"] for row in rows] if len(rows) == generator.classes else []
    if name in names:
        return names.index(name)
    if name.isdigit() and int(name) < generator.classes:
        return int(name)
    known = "0 to %d" % (generator.classes - 1)
    known = ", ".join([known] + names[:8])
    raise ValueError("%s is no number of this model's labels: %s" % (name, known))


def finite(text):
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= torch.finfo(torch.float32).max:
        raise ValueError("%s is no finite number" % text)
    return number


def numbers_in_csv(path, generator):
    """The first label of a file, (place, number); a header has names, and may name files."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    places = list(range(generator.classes))
    try:
        [float(field) for field in rows[0] if field] if rows else []
    except ValueError:
        others = ("file_name", "filename", "file", "path", "image", "picture", "seed", "id")
        header = rows.pop(0)
        places = [None if x.lower() in others else place_of(x, generator) for x in header]
    if not rows:
        raise ValueError("holds no label")
    if len(rows[0]) != len(places):
        raise ValueError("%d fields, not %d" % (len(rows[0]), len(places)))
    return [(at, x) for at, x in zip(places, rows[0]) if at is not None and x]


def read_label(text, generator):
    """--label as a row: red=1,size=0.3, or the first of a .csv or .npy file; others as usual."""
    if text.lower().endswith(".npy"):
        row = read_npy(text)
        row = row[0] if row.dim() == 2 and len(row) else row
        if row.shape != (generator.classes,) or not row.isfinite().all():
            raise ValueError("[N, %d] finite numbers are needed" % generator.classes)
        return row.unsqueeze(0)
    row = usual_label(generator)
    if text.lower().endswith(".csv") or os.path.isfile(text):
        given = numbers_in_csv(text, generator)
    else:
        given = [part.rpartition("=") for part in text.split(",")]
        if not all(name.strip() and number.strip() for name, _, number in given):
            raise ValueError("a .csv or .npy file is needed, or red=1,size=0.3")
        given = [(place_of(name.strip(), generator), number) for name, _, number in given]
    if len({place for place, _ in given}) < len(given):
        raise ValueError("a number is there twice")
    for place, number in given:
        row[place] = finite(number)
    return torch.tensor([row])


def write_npy(path, picture):
    header = str({"descr": "<f4", "fortran_order": False, "shape": tuple(picture.shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(bytes_of(picture.float()))


def bytes_of(tensor):
    return bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())


def write_png(path, picture, depth=8):
    """[C, H, W]: grey, grey and alpha, RGB, RGB and alpha; of more channels a file each."""
    if len(picture) > 4:
        name = path[:-4] if path.endswith(".png") else path
        for channel in range(len(picture)):
            write_png("%s.c%d.png" % (name, channel), picture[channel : channel + 1], depth)
        return
    channels, height, width = picture.shape
    half = 2 ** (depth - 1)
    levels = (picture * (half - 0.5) + half).clamp(0, 2 * half - 1).int().permute(1, 2, 0)
    # Of 16 bits the upper ones first.
    levels = torch.stack([levels >> 8, levels & 255], -1) if depth == 16 else levels
    rows = levels.to(torch.uint8).reshape(height, -1)
    rows = torch.cat([torch.zeros(height, 1, dtype=torch.uint8), rows], 1)

    def chunk(kind, data):
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    size = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
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
        given = {"label": torch.tensor([case["class"]])} if "class" in case else {}
        if "label" in case:
            given["label"] = torch.tensor([case["label"]], dtype=torch.float32)
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
        given += (first_label(generator),)
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
    label = parser.add_mutually_exclusive_group()
    label.add_argument("--class", type=int, dest="label", help="of a conditional model (0)")
    label.add_argument(
        "--label",
        dest="numbers",
        metavar="NUMBERS",
        help="of a model that takes vectors: red=1,size=0.3, or a .csv or .npy file",
    )
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
    takes_vectors = generator.classes and getattr(generator, "takes_vectors", False)
    if args.numbers is not None and not takes_vectors:
        parser.error("--label %s: the model takes no vectors" % args.numbers)
    if args.label is not None and not generator.classes:
        parser.error("--class %d: the model has no classes" % args.label)
    if args.trunc != 1 and not generator.num_ws:
        parser.error("--trunc %g: the model has no w space" % args.trunc)
    if args.noise_mode != "const" and not generator.has_noise:
        parser.error("--noise-mode %s: the model has no noise inputs" % args.noise_mode)
    if generator.classes:
        given["label"] = first_label(generator)
    if generator.classes and args.label is not None:
        try:
            given["label"] = class_label(args.label, generator)
        except ValueError as error:
            parser.error("--class %s" % error)
    if args.numbers is not None:
        try:
            given["label"] = read_label(args.numbers, generator)
        except (OSError, ValueError) as error:
            parser.error("--label %s: %s" % (args.numbers, error))
    if generator.num_ws:
        given["psi"] = args.trunc
    if generator.has_noise:
        given["noise"] = args.noise_mode
    if args.rotate or args.translate:
        if not hasattr(generator, "moved"):
            parser.error("--rotate, --translate: only StyleGAN3's pictures can be moved")
        given["transform"] = generator.moved(args.rotate, *(args.translate or (0.0, 0.0)))
    picture = generator(z, **given)[0]
    if args.output.endswith(".npy"):
        write_npy(args.output, picture)
    else:
        write_png(args.output, picture, generator.depth)


if __name__ == "__main__":
    main()
