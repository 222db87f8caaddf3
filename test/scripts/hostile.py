# SPDX-License-Identifier: Apache-2.0
# hostile.py: the stranger of hostile_test.sh. Its first argument says which function of it is meant.
import hashlib, hmac, json, os, resource, select, shutil, signal, socket, struct, subprocess, sys, threading, time, zlib

DEEP = '[' * 300_000 + ']' * 300_000
WAIT = 60  # seconds, for what happens at once on an idle machine


def fail(what, got=''):
    sys.exit(f'FAILED: {what}: {got!r}')


# measure OUT COMMAND...: what it prints goes to OUT; says its exit code and the MiB that it held at most.
def measure(out, *command):
    with open(out, 'wb') as file:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    watch = threading.Timer(WAIT, child.kill)
    watch.start()
    _, status, used = os.wait4(child.pid, 0)
    watch.cancel()
    print(os.waitstatus_to_exitcode(status) % 256, used.ru_maxrss // 1024)


def png(width, height, bits, kind, rows):
    chunk = lambda name, data: struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
    head = struct.pack('>IIBBBBB', width, height, bits, kind, 0, 0, 0)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + chunk(b'IDAT', rows) + chunk(b'IEND', b'')


# pictures FOLDER: a small data set.
def pictures(folder):
    for i in range(20):
        rows = b''.join(b'\0' + bytes((i * 13 + x * y) % 256 for x in range(48)) for y in range(16))
        with open(f'{folder}/{i}.png', 'wb') as file: file.write(png(16, 16, 8, 2, zlib.compress(rows)))


def replace(path, make):
    if os.path.lexists(path): os.remove(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    make(path)


def write(text): return lambda path: open(path, 'w').write(text)
def link(to): return lambda path: os.symlink(to, path)


# model FROM TO WHAT: the model file with metadata of a stranger.
def model(source, target, what):
    with open(source, 'rb') as file:
        size = struct.unpack('<Q', file.read(8))[0]
        head, rest = json.loads(file.read(size)), file.read()
    meta = head['__metadata__']
    forged = '\x1b]0;owned\x07\x1b[2J\nerror   forged\r\x9b31m\x7f'
    if what == 'escapes':
        recipe = json.loads(meta['gantrain.model'])
        recipe['classes'] = [forged]
        meta.update({'note' + forged: forged, 'gantrain.version': forged, 'gantrain.data': forged})
        meta['gantrain.model'] = json.dumps(recipe)
    if what == 'nested': meta['gantrain.model'] = '{"recipe":' + DEEP + '}'
    text = json.dumps(head)
    if what == 'deep': text = '{"__metadata__":' + DEEP + ',' + text[1:]
    text = text.encode()
    with open(target, 'wb') as file: file.write(struct.pack('<Q', len(text)) + text + rest)


# ruin RUN WHAT VICTIM: files of a run folder as a stranger would have them.
def ruin(run, what, victim):
    texts = ['STATUS', 'command.txt', 'env.json', 'log.txt']
    lines = ['stats.jsonl', 'metric-swd.jsonl', 'data-manifest.jsonl']
    place = lambda name: f'{run}/{name}'
    if what == 'deep':
        replace(place('config.json'), write('{"values":{"train.kimg":{"value":' + DEEP + ',"origin":"x"}}}'))
    if what in ('deep', 'nested'):
        replace(place('env.json'), write('{"device":' + DEEP + '}'))
        replace(place('errors/rank0.json'), write('{"message":{"message":"x","extraInfo":{"a":' + DEEP + '}}}'))
        replace(place('errors/pids.json'), write('{"ranks":' + DEEP + '}'))
        for name in lines[:2]:
            with open(place(name), 'a') as file: file.write('{"results":{"swd":1},"kimg":1,"Progress/kimg":{"mean":1},"x":' + DEEP + '}\n')
    if what == 'manifest': replace(place(lines[2]), write('{"format":' + DEEP + '}\n'))
    if what == 'hashes':
        os.remove(place(lines[2]))
        replace(place('data-manifest.bin'), write('{"format":"gantrain.data-manifest.2","pictures":1152921504606846976}\n' + '0' * 32))
    if what == 'pipes':
        for name in texts + lines + ['.lock', 'errors/rank0.json', 'samples/latest.png', 'report.html']: replace(place(name), os.mkfifo)
    if what == 'endless':
        for name in texts + lines[:2] + ['samples/latest.png', 'errors/rank0.json']: replace(place(name), link('/dev/zero'))
        replace(place('env.json'), lambda path: (open(path, 'w').close(), os.truncate(path, 1 << 40)))
    if what == 'links':
        for name in texts + ['errors/rank0.json', 'samples/latest.png']: replace(place(name), link(victim + '/secret'))
        replace(place('metric-swd.jsonl'), link(victim + '/secret'))
    if what == 'bomb':  # a small file that states 32768 x 12000 pixels
        one = zlib.compressobj(9)
        rows = b''.join(one.compress(bytes(4097)) for _ in range(12000)) + one.flush()
        for name in ('latest', 'fakes_init', 'fakes000000.100', 'reals'):
            with open(place(f'samples/{name}.png'), 'wb') as file: file.write(png(32768, 12000, 1, 0, rows))


# plant FOLDER TO FIRST NAME...: links under the names that temporary files had, for thousands of processes to come.
def plant(folder, to, first, *names):
    for pid in range(int(first), int(first) + 3000):
        for name in names: os.symlink(to, f'{folder}/{name}.tmp{pid}')


class Server:
    def __init__(self, port, pid): self.port, self.pid = int(port), int(pid)
    def connect(self): return socket.create_connection(('127.0.0.1', self.port), timeout=WAIT)
    def ask(self, request, more=b'', megabytes=0):
        s, sent, out = self.connect(), 0, b''
        try:
            s.sendall(request)
            while sent < megabytes: s.sendall(more); sent += len(more) / 1e6
        except OSError: pass
        try:
            while part := s.recv(1 << 16): out += part
        except OSError: pass
        return out, sent
    def get(self, path, more=''): return self.ask(f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}\r\n'.encode())[0]
    def alive(self, what):
        end = time.monotonic() + WAIT
        while not (out := self.get('/')).startswith(b'HTTP/1.1 200'):  # a server with too much to do may say so
            if time.monotonic() > end: fail(f'{what}: others are answered', out[:80])
            if os.environ.get('TELL'): print('again', what, out[:40], file=sys.stderr)
    def memory(self, what):
        peak = next(int(line.split()[1]) for line in open(f'/proc/{self.pid}/status') if line.startswith('VmHWM'))
        if peak > 300 * 1024: fail(f'{what}: memory below 300 MiB', peak)


# pages PORT PID SECRET RUN...: pages of strangers' runs.
def pages(port, pid, secret, *runs):
    server = Server(port, pid)
    for path in ['/', '/metrics', '/api/runs'] + ['/run/' + run for run in runs]:
        out = server.get(path)
        if not out.startswith(b'HTTP/1.1 200'): fail(path, out[:80])
        if secret.encode() in out: fail(f'{path} shows the secret')
        server.memory(path)


# requests PORT PID: requests that are too large, too many or unclear.
def requests(port, pid):
    server = Server(port, pid)
    host = b'Host: 127.0.0.1\r\n'
    chunks = (b'10000\r\n' + b'x' * 65536 + b'\r\n') * 15
    for what, request, status, more, megabytes in [
            ('300 MB in chunks', b'POST /run/fine/stop HTTP/1.1\r\n' + host + b'Transfer-Encoding: chunked\r\n\r\n', 411, chunks, 300),
            ('200,000 header lines', b'GET / HTTP/1.1\r\n', 431, b'a: b\r\n' * 10000, 1.2),
            ('a long body', b'POST /run/fine/stop HTTP/1.1\r\n' + host + b'Content-Length: 4097\r\n\r\n', 413, b'', 0),
            ('a long path', b'POST /' + b'a' * 4000 + b' HTTP/1.1\r\n' + host + b'Content-Length: 1\r\n\r\na', 403, b'', 0),
            ('a long form', b'POST / HTTP/1.1\r\n' + host + b'Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 4096\r\n\r\n'
             + (b'--b\r\nContent-Disposition: form-data; name="' + b'a' * 4096)[:4096], 403, b'', 0),
            ('two lengths', b'POST / HTTP/1.1\r\n' + host + b'Content-Length: 1\r\nContent-Length: 2\r\n\r\n', 400, b'', 0),
            ('another host', b'GET / HTTP/1.1\r\nHost: evil.org\r\n\r\n', 403, b'', 0),
            ('many ranges', b'GET /page.css HTTP/1.1\r\n' + host + b'Range: bytes=' + b'0-,' * 2000 + b'0-\r\n\r\n', 200, b'', 0)]:
        out, sent = server.ask(request, more, megabytes)
        cut = megabytes and sent < megabytes  # the connection was closed on what it still sent
        if not out.startswith(b'HTTP/1.1 %d' % status) and not cut: fail(f'{what}: {status}', (out[:80], sent))
        server.alive(what)
        server.memory(what)


# slow PORT PID COUNT: so many clients send a byte now and then all the while, and others do not read; then SIGTERM ends the
# server all the same. Says the seconds that this took.
def slow(port, pid, count):
    server, over = Server(port, pid), threading.Event()

    def client(i):
        s = server.connect()
        if i % 2: s.sendall(b'POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n')
        return s
    clients = [client(i) for i in range(int(count))]

    def drip():
        while not over.wait(0.05):
            for i, s in enumerate(clients):
                try: s.send(b'G')
                except OSError:
                    s.close()
                    try: clients[i] = client(i)
                    except OSError: pass
    thread = threading.Thread(target=drip)
    thread.start()
    try:
        for _ in range(3): server.alive(f'{count} slow clients')
        readers = [server.connect() for _ in range(40)]
        for s in readers: s.sendall(b'GET /run/fine HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
        server.alive('clients that do not read')
        server.memory('slow clients')
    finally:
        over.set()
        thread.join()
    ended = os.pidfd_open(server.pid)
    start = time.monotonic()
    os.kill(server.pid, signal.SIGTERM)
    if not select.select([ended], [], [], WAIT)[0]: fail('SIGTERM ends serve')
    print(round(time.monotonic() - start, 2))


# status PORT PATH: that of a page.
def status(port, path): print(Server(port, 0).get(path)[9:12].decode())


# post PORT TOKEN PATH: the button of a page.
def post(port, token, path):
    out, _ = Server(port, 0).ask(f'POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n'.encode())
    print(out[9:12].decode())


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        print(s.getsockname()[1])


GREETING = b'gantrain-node 4 ' + b'0' * 32


def proof(secret, side, greeting, other):
    return hmac.new(secret, b'\n'.join([side, greeting, other]), hashlib.sha256).hexdigest().encode()


def message(word, **more):
    place = {'node': 1, 'nodes': 2, 'ranks': 1, 'host': 'evil'}
    return json.dumps({'gantrain': 4, 'word': word, 'number': 0, 'port': 1, 'text': '', 'place': place} | more).encode() + b'\n'


# strangers PORT: connections to node 0 of a job, while it forms. They must be closed or ignored.
def strangers(port):
    end = time.monotonic() + WAIT
    while True:
        try: first = socket.create_connection(('127.0.0.1', int(port)), timeout=WAIT); break
        except OSError:
            if time.monotonic() > end: fail('node 0 listens')
            time.sleep(0.05)
    idle = [first] + [socket.create_connection(('127.0.0.1', int(port)), timeout=WAIT) for _ in range(100)]
    for said in [b'GET / HTTP/1.0\r\n\r\n', b'\0' * 4096, b'x' * 100_000, message(1), message(2, text='no run'),
                 GREETING + b'\n' + b'0' * 64 + b'\n' + message(1) + message(9, number=15)]:
        s = socket.create_connection(('127.0.0.1', int(port)), timeout=WAIT)
        try:
            s.sendall(said)
            while s.recv(4096): pass
        except ConnectionError: pass
        except TimeoutError: fail('a stranger is sent away', said[:40])
    where = [line.split()[1] for name in ('tcp', 'tcp6') for line in open('/proc/net/' + name) if line.split()[3] == '0A']
    where = [address for address in where if address.endswith(':%04X' % int(port))]
    if where != ['0100007F:%04X' % int(port)]: fail('node 0 listens on 127.0.0.1 alone', where)


# node0 PORT SECRET FOLDER: plays node 0 and sends whoever comes into that folder. Says what it was told last.
def node0(port, secret, folder):
    listening = socket.create_server(('127.0.0.1', int(port)))
    listening.settimeout(WAIT)
    s, _ = listening.accept()
    s.settimeout(WAIT)
    lines = s.makefile('rb')
    greeting = lines.readline().strip()
    s.sendall(GREETING + b'\n' + proof(secret.encode(), b'node 0', GREETING, greeting) + b'\n')
    s.sendall(message(4, text=folder, place={'node': 0, 'nodes': 2, 'ranks': 1, 'host': 'evil'}))
    last = b''
    try:
        for line in lines: last = line
    except OSError: pass
    print(last.decode()[:400])


if __name__ == '__main__': globals()[sys.argv[1]](*sys.argv[2:])
