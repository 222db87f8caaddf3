# SPDX-License-Identifier: Apache-2.0
"""onnx_page.py GANTRAIN FOLDER ROOT BROWSER: the page of `gantrain export --to web` in a browser, driven as a user would,
paints what gantrain draws. onnxruntime-web is in no package of Debian or PyPI, so that ONNX Runtime stands in for it: a
server gives the page a script whose sessions send the page's own graphs and inputs back to it."""
import http.server
import json
import pathlib
import re
import shlex
import subprocess
import sys
import threading

import numpy as np
import onnxruntime
from PIL import Image
from safetensors.numpy import load_file, save_file

SCRIPT = """
const here = new URL('.', document.currentScript.src).href;
const ort = {
  env: { wasm: {} },
  Tensor: class { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } },
  InferenceSession: {
    async create(bytes) {
      const said = await (await fetch(here + 'graph', { method: 'POST', body: bytes })).json();
      return {
        async run(feeds) {
          const given = Object.fromEntries(Object.entries(feeds).map(([name, t]) =>
              [name, { type: t.type, dims: t.dims, data: Array.from(t.data, Number) }]));
          const answer = await fetch(here + 'run/' + said.session, { method: 'POST', body: JSON.stringify(given) });
          if (!answer.ok) throw new Error(await answer.text());
          return Object.fromEntries(Object.entries(await answer.json()).map(([name, t]) =>
              [name, new ort.Tensor('float32', Float32Array.from(t.data), t.dims)]));
        },
      };
    },
  },
};
"""
sessions, seen, notes = [], [], {}
done = threading.Event()
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, code, content, kind="application/json"):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(content.encode())

    def do_GET(self):
        if self.path == "/ort.wasm.min.js":
            self.answer(200, SCRIPT, "text/javascript")
        elif self.path == "/wait.js":
            done.wait(60)
            self.answer(200, "", "text/javascript")
        else:
            self.answer(404, "no " + self.path)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/done":
            notes.update(json.loads(body))
            done.set()
            return self.answer(200, "{}")
        with lock:
            try:
                answer = 200, json.dumps(made(self.path, body))
            except Exception as error:  # the page shows it, and the test sees the page
                answer = 500, str(error)
        return self.answer(*answer)


def made(path, body):
    if path == "/graph":
        sessions.append(onnxruntime.InferenceSession(body, providers=["CPUExecutionProvider"]))
        return {"session": len(sessions) - 1}
    session = sessions[int(path.rsplit("/", 1)[1])]
    feeds = {name: np.array(t["data"], dtype=t["type"]).reshape(t["dims"]) for name, t in json.loads(body).items()}
    values = session.run(None, feeds)
    outputs = {output.name: value for output, value in zip(session.get_outputs(), values)}
    seen.append(feeds)
    return {name: {"dims": value.shape, "data": value.ravel().tolist()} for name, value in outputs.items()}



# The page tells what it has painted, and its end, wait.js, does not come before that.
DRIVE = """<script>
(async () => {
  const painted = count => new Promise(resolve => {
    const timer = setInterval(() => {
      if (Number(document.body.dataset.drawn || 0) < count && !document.body.dataset.failed) return;
      clearInterval(timer);
      const canvas = document.getElementById('picture');
      const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      resolve({ command: document.getElementById('command').textContent, pixels: Array.from(pixels),
                said: document.getElementById('said').textContent, width: canvas.width, height: canvas.height });
    }, 20);
  });
  const seen = [await painted(1)];
  for (const [id, value] of Object.entries(@CHANGES@)) {
    const field = document.getElementById(id);
    if (field.type === 'checkbox') field.checked = value; else field.value = value;
  }
  document.getElementById('seed').dispatchEvent(new Event('input', { bubbles: true }));
  seen.push(await painted(2));
  const shown = [...document.querySelectorAll('form label')].filter(row => !row.hidden).length;
  await fetch('@HERE@done', { method: 'POST', body: JSON.stringify({ seen, shown }) });
})();
</script><script src="@HERE@wait.js"></script>"""

DIRECTIONS = "found/directions.npz"
gantrain, folder, root, browser = (pathlib.Path(word).absolute() for word in sys.argv[1:5])


def run(*words):
    done = subprocess.run([gantrain, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)


def visited(page, name):
    """Looks at the page; nothing is said on the console, and nothing is asked for elsewhere."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    words = "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --no-first-run".split()
    words += [f"--user-data-dir={home / name}", "--enable-logging=stderr", f"--log-net-log={folder / name}.net"]
    looked = subprocess.run([browser, *words, "--dump-dom", page.as_uri()], env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
                            capture_output=True, text=True, timeout=120, check=False)
    assert looked.returncode == 0, looked.stderr[-2000:]
    asked = set(re.findall(r'"url":"((?:https?|wss?|ftp)://[^"]*)', (folder / f"{name}.net").read_text()))
    return looked.stdout, re.findall("CONSOLE.*", looked.stderr), asked


def painted_as_drawn(view, model):
    """What the page paints is the picture of the command that it names, to a level."""
    words = shlex.split(view["command"])
    assert words[:3] == ["gantrain", "generate", "MODEL"], words
    words = [DIRECTIONS if word == "FILE" else word for word in words]
    run("generate", "--device", "cpu", model, *words[3:])
    drawn = np.asarray(Image.open(folder / "picture.png").convert("RGBA")).astype(int)
    # Above and left of what is mixed stand the pictures that it is mixed of.
    drawn = drawn[-view["height"] :, -view["width"] :]
    painted = np.array(view["pixels"]).reshape(drawn.shape)
    assert np.abs(painted - drawn).max() <= 1, (view["command"], np.abs(painted - drawn).max())


def drive(name, model, changes, shown, *more):
    done.clear()
    seen.clear()
    notes.clear()
    run("export", model, "--to", "web", "--runtime", here, "-o", f"{name}.html", *more)
    page = folder / f"{name}.html"
    end = DRIVE.replace("@CHANGES@", json.dumps(changes)).replace("@HERE@", here)
    copy = folder / f"{name}-driven.html"
    copy.write_text(page.read_text() + end)
    _, console, asked = visited(copy, name)
    assert console == [] and notes, (console, notes)
    assert all(address.startswith(here) for address in asked), asked
    for view in notes["seen"]:
        painted_as_drawn(view, model)
    assert notes["shown"] == shown, notes["shown"]
    z = [feeds["z"] for feeds in seen if "z" in feeds]
    for number, seed in enumerate([0, changes["seed"], changes["other"]][: len(z)]):
        wanted = np.random.RandomState(seed).randn(1, z[number].shape[1])
        assert np.abs(z[number] - wanted).max() <= 1e-6, seed
    print(f"{name}: {'; '.join(view['command'] for view in notes['seen'])}", flush=True)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
here = f"http://127.0.0.1:{server.server_address[1]}/"
threading.Thread(target=server.serve_forever, daemon=True).start()

fixtures = root / "test" / "fixtures"
tensors = load_file(fixtures / "sg2_cond32_G.safetensors")
classes = json.dumps([{"name": "</script><b>circle", "pictures": 2}] * 10)
save_file({key[2:]: value for key, value in tensors.items()}, folder / "classes.safetensors", {"gantrain.classes": classes})
changes = {"seed": 7, "other": 4294967295, "psi": 0.5, "mix": 3, "class": 1, "noise": False}
drive("classes", "classes.safetensors", changes, 6)
run("edit", "--device", "cpu", "classes.safetensors", "--count", "2", "--seeds", "0", "--columns", "2", "--layers", "1-3", "-o", "found")
drive("edited", "classes.safetensors", {**changes, "direction0": 2.5, "direction1": -1.2}, 8, "--directions", DIRECTIONS)
# Labels that are vectors, with names that no flag and no page takes as they are.
names = ["red", "it's", "a,b", "<b>", "red", "5", "a b", "size", "angle", "g"]
ranges = [{"yes_or_no": k < 5, "least": 0 if k < 5 else -k / 3, "mean": 0.1, "most": 1} for k in range(10)]
rows = [{"name": name, "pictures": 2, **told} for name, told in zip(names, ranges)]
table = {"attributes": rows, "examples": [[1, 0, 0, 1, 0, 0.123456, 0.5, -1, 0.2, 0]]}
save_file({key[2:]: value for key, value in tensors.items()}, folder / "vectors.safetensors", {"gantrain.classes": json.dumps(table)})
del changes["class"]
moved = {"number0": False, "number1": True, "number2": True, "number5": -0.75, "number8": 0.3}
drive("vectors", "vectors.safetensors", {**changes, **moved}, 15)
drive("plain", str(fixtures / "resumed-dcgan.safetensors"), {"seed": 4294967295, "other": 0}, 1)

# A page without its runtime says so.
run("export", str(fixtures / "resumed-dcgan.safetensors"), "--to", "web", "--runtime", "nowhere", "-o", "alone.html")
said, _, asked = visited(folder / "alone.html", "alone")
assert "onnxruntime-web cannot be loaded from nowhere/" in said and asked == set(), said[:2000]
