# SPDX-License-Identifier: Apache-2.0
"""trackers.py GANTRAIN FOLDER: the rows of runs in a real MLflow and a real Trackio. The way there leads through a relay
that kills the sender at random places: before the server has a request, or before its answer arrives."""
import json, os, random, signal, socket, sqlite3, ssl, subprocess, sys, threading, time, urllib.request
from pathlib import Path

gantrain, folder = sys.argv[1], Path(sys.argv[2])
TOKEN = "w" * 20
VALUES = [f"Loss/D/{i}" for i in range(20)]
seed = int(os.environ.get("TRACKERS_SEED", "0"))
chance = random.Random(seed)
children = []


def check(right, what):
    if not right:
        sys.exit(f"FAILED: {what} (TRACKERS_SEED={seed})")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def server(command, port, place, environment):
    log = open(folder / f"{Path(command[-1]).name}-{port}.log", "wb")
    child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder,
                             start_new_session=True, env={**os.environ, **environment})
    children.append(child)
    for _ in range(1800):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{place}", timeout=10).read()
            return
        except OSError:
            check(child.poll() is None, f"{command} ended: {Path(log.name).read_text()[-2000:]}")
            time.sleep(0.1)
    sys.exit(f"FAILED: {command} does not answer: {Path(log.name).read_text()[-2000:]}")


class Relay:
    """Passes requests on, one a connection. `cut` says what happens to a request: None, "before", "after"."""

    def __init__(self, port, context=None):
        self.target, self.client, self.cut = port, None, lambda: None
        self.ready = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.context = context
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            try:
                if self.context:
                    client = self.context.wrap_socket(client, server_side=True)
                self.pass_on(client)
            except OSError:
                pass
            client.close()

    def kill(self):
        self.ready.wait(60)
        os.kill(self.client.pid, signal.SIGKILL)

    def pass_on(self, client):
        request = b""
        while b"\r\n\r\n" not in request:
            piece = client.recv(65536)
            if not piece:
                return
            request += piece
        head, body = request.split(b"\r\n\r\n", 1)
        length = next((int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length:")), 0)
        while len(body) < length:
            body += client.recv(65536)
        cut = self.cut()
        if cut == "before":
            return self.kill()
        with socket.create_connection(("127.0.0.1", self.target)) as to:
            to.sendall(head + b"\r\n\r\n" + body)
            answer = b""
            while piece := to.recv(65536):
                answer += piece
        if cut == "after":
            return self.kill()
        client.sendall(answer)


def write_run(name, count):
    run = folder / name
    run.mkdir()
    (run / "config.json").write_text(json.dumps({"values": {"train.kimg": {"value": 1}, "run.resume": {"value": "auto"}}}))
    (run / "STATUS").write_text("done 1 kimg\n")
    with open(run / "stats.jsonl", "w") as file:
        for step in range(1, count + 1):
            row = {key: {"num": 1, "mean": step * 0.1 + i / 7, "std": 0.0} for i, key in enumerate(VALUES)}
            row["Progress/kimg"] = {"num": 1, "mean": step / 1000, "std": 0.0}
            file.write(json.dumps({**row, "timestamp": 1795727699.5 + step}) + "\n")
    return run


def track(run, *targets, **environment):
    words = [word for target in targets for word in ("--track", target)]
    return subprocess.Popen([gantrain, "track", run, *words], stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "TRACKIO_WRITE_TOKEN": TOKEN, **environment})


def expected(run):
    wanted = {}
    for line in open(run / "stats.jsonl"):
        row = json.loads(line)
        step = round(row["Progress/kimg"]["mean"] * 1000)
        for key, value in row.items():
            if isinstance(value, dict) and value["mean"] is not None:
                wanted[key, step] = value["mean"]
    return wanted


def compare(kind, found, wanted):
    check(len(found) == len(set((key, step) for key, step, _ in found)), f"{kind}: values that are there twice")
    got = {(key, step): value for key, step, value in found}
    check(got.keys() == wanted.keys(), f"{kind}: {len(got)} of {len(wanted)} values")
    check(all(abs(got[at] - wanted[at]) <= 1e-12 * abs(wanted[at]) for at in got), f"{kind}: other values")


def in_mlflow(name):
    base = sqlite3.connect(folder / "mlflow.db")
    runs = base.execute("select run_uuid, status from runs where name = ?", (name,)).fetchall()
    check(len(runs) == 1, f"mlflow: {len(runs)} runs {name}")
    rows = base.execute("select key, step, value from metrics where run_uuid = ?", (runs[0][0],)).fetchall()
    return rows, runs[0][1]


def in_trackio(name):
    base = sqlite3.connect(folder / "trackio" / "gantrain.db")
    check(len(base.execute("select distinct run_id from metrics where run_name = ?", (name,)).fetchall()) == 1, "trackio: runs")
    return [(key, step, value) for step, text in base.execute("select step, metrics from metrics where run_name = ?", (name,))
            for key, value in json.loads(text).items()]


def ten_kills(kind, relay):
    run = write_run(f"{kind}-ten-kills", 1000)
    kills = 0
    while kills < 10:
        count, at, how = 0, chance.randint(1, 6), chance.choice(["before", "after"])

        def cut():
            nonlocal count
            count += 1
            return how if count == at else None

        relay.cut = cut
        relay.ready.clear()
        relay.client = track(run, f"{kind}=http://127.0.0.1:{relay.port}")
        relay.ready.set()
        said = relay.client.communicate()[1]
        if relay.client.returncode == 0:
            break
        check(relay.client.returncode == -signal.SIGKILL, f"{kind}: ended with {relay.client.returncode}: {said}")
        kills += 1
    check(kills == 10, f"{kind}: only {kills} kills before all was sent")
    relay.cut = lambda: None
    last = track(run, f"{kind}=http://127.0.0.1:{relay.port}")
    said = last.communicate()[1]
    check(last.returncode == 0, f"{kind}: {said}")
    return run


def killed_trainings(targets):
    """Launchers that are killed at random moments; the same command goes on."""
    run = folder / "killed-trainings"
    command = [gantrain, "--preset", "dcgan-tiny", "--nproc", "1", "--device", "cpu", "--threads", "1", "--batch", "16",
               "--resolution", "8", "--kimg", "4", "--tick", "0.016", "--save-every", "0.5", "--metrics", "none",
               "--set", "metrics.at_start=off", "--run-dir", run]
    for target in targets:
        command += ["--track", target]
    environment = {**os.environ, "TRACKIO_WRITE_TOKEN": TOKEN}
    for _ in range(3):
        child = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        before = sum(1 for _ in open(run / "stats.jsonl")) if (run / "stats.jsonl").exists() else 0
        enough = before + chance.randint(5, 60)
        for _ in range(6000):
            rows = sum(1 for _ in open(run / "stats.jsonl")) if (run / "stats.jsonl").exists() else 0
            if child.poll() is not None or rows >= enough:
                break
            time.sleep(0.01)
        child.kill()
        child.wait()
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    check(done.returncode == 0, done.stderr)
    return run


def main():
    ports = {"mlflow": free_port(), "trackio": free_port()}
    bin_folder = Path(sys.executable).parent
    server([sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--port", str(ports["mlflow"]),
            "--workers", "1", "--no-serve-artifacts", "--default-artifact-root", str(folder / "artifacts")], ports["mlflow"], "/health",
           {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "GIT_PYTHON_REFRESH": "quiet", "MLFLOW_DISABLE_TELEMETRY": "true"})
    server([sys.executable, bin_folder / "trackio", "show", "--host", "127.0.0.1"], ports["trackio"], "/version",
           {"GRADIO_SERVER_PORT": str(ports["trackio"]), "TRACKIO_DIR": str(folder / "trackio"), "TRACKIO_WRITE_TOKEN": TOKEN,
            "BROWSER": "true", "GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"})

    run = ten_kills("mlflow", Relay(ports["mlflow"]))
    rows, status = in_mlflow(run.name)
    compare("mlflow", rows, expected(run))
    check(status == "FINISHED", f"mlflow: status {status}")
    run = ten_kills("trackio", Relay(ports["trackio"]))
    compare("trackio", in_trackio(run.name), expected(run))

    run = killed_trainings([f"{kind}=http://127.0.0.1:{port}" for kind, port in ports.items()])
    wanted = expected(run)
    for kind, found in (("mlflow", in_mlflow(run.name)[0]), ("trackio", in_trackio(run.name))):
        # Timings of steps that were trained again differ from those that were sent at first.
        check(len(found) == len(set((key, step) for key, step, _ in found)), f"{kind}: values twice after killed trainings")
        got = {(key, step): value for key, step, value in found}
        check(got.keys() == wanted.keys(), f"{kind}: {len(got.keys() - wanted.keys())} too many, {len(wanted.keys() - got.keys())} missing")
        losses = [at for at in wanted if at[0].startswith("Loss/")]
        check(losses and all(got[at] == wanted[at] for at in losses), f"{kind}: losses differ after killed trainings")
    for file in run.rglob("*"):
        check(not file.is_file() or TOKEN.encode() not in file.read_bytes(), f"{file} holds the token")

    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2", "-addext",
                           "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate], capture_output=True)
    check(made.returncode == 0, made.stderr)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    relay = Relay(ports["mlflow"], context)
    run = write_run("https", 30)
    address = f"mlflow=https://localhost:{relay.port}"
    child = subprocess.run([gantrain, "track", run, "--track", address, "--wait", "0s"], stderr=subprocess.PIPE, text=True)
    check(child.returncode == 4 and "certificate that is not trusted" in child.stderr, child.stderr)
    child = track(run, address, REQUESTS_CA_BUNDLE=str(certificate))
    said = child.communicate()[1]
    check(child.returncode == 0, said)
    compare("https", in_mlflow(run.name)[0], expected(run))
    print("all values once: 2 x 21,000 after ten kills each,", len(wanted), "of trainings that were killed,", "https too")


try:
    main()
finally:
    for child in children:
        os.killpg(child.pid, signal.SIGKILL)
