"""Building and running the unmodified client libraries."""
import glob
import json
import os
import shutil
import signal
import subprocess
import threading
import time

from .cluster import HERE, ROOT, live

OUT = os.path.join(ROOT, "build", "interop")
SOURCES = os.path.join(HERE, "clients")
NAMES = ("java-4.9.8", "java-5.3.3", "go", "node")
JVM = ["-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]


class Missing(Exception):
    """A runtime that is not installed, or a library that cannot be had: the test is skipped with this reason."""


def _run(argv, folder, env=None):
    done = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        raise Missing(f"{' '.join(argv)} failed: {done.stdout.strip()[-600:]}")


def _need(*programs):
    for p in programs:
        if not shutil.which(p):
            raise Missing(f"{p} is not installed (tests/install_packages.sh interop)")


def _fresh(target, *sources):
    return os.path.exists(target) and all(os.path.getmtime(s) <= os.path.getmtime(target) for s in sources)


def _java(version):
    _need("java", "javac", "mvn")
    jars, classes = os.path.join(OUT, "client-" + version), os.path.join(OUT, "classes-" + version)
    sources, pom = sorted(glob.glob(os.path.join(SOURCES, "java", "*.java"))), os.path.join(SOURCES, "java", "pom.xml")
    if not _fresh(os.path.join(jars, ".complete"), pom):
        _run(["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-Drocketmq.version=" + version, "-DoutputDirectory=" + jars], SOURCES)
        open(os.path.join(jars, ".complete"), "w").close()
    if not _fresh(os.path.join(classes, "Scenario.class"), *sources):
        _run(["javac", "-nowarn", "-cp", jars + "/*", "-d", classes, *sources], SOURCES)
    return ["java", *JVM, "-cp", f"{classes}:{jars}/*", "Scenario"]


def _go():
    _need("go")
    folder, program = os.path.join(SOURCES, "go"), os.path.join(OUT, "go-scenario")
    if not _fresh(program, *glob.glob(os.path.join(folder, "*.go")), os.path.join(folder, "go.mod")):
        _run(["go", "build", "-o", program, "."], folder, dict(os.environ, GOFLAGS="-mod=readonly"))
    return [program]


def _node():
    _need("node", "npm")
    folder = os.path.join(OUT, "node")
    package = os.path.join(SOURCES, "node", "package.json")
    os.makedirs(folder, exist_ok=True)
    if not _fresh(os.path.join(folder, ".complete"), package):
        shutil.copy(package, folder)
        _run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"], folder)
        open(os.path.join(folder, ".complete"), "w").close()
    shutil.copy(os.path.join(SOURCES, "node", "scenario.js"), folder)
    return ["node", os.path.join(folder, "scenario.js")]


_built = {}
_lock = threading.Lock()


def command(name):
    """The command line prefix of a client, built on first use. Raises Missing."""
    with _lock:
        if name not in _built:
            os.makedirs(OUT, exist_ok=True)
            try:
                _built[name] = _go() if name == "go" else _node() if name == "node" else _java(name.split("-")[1])
            except Missing as e:
                _built[name] = e
        if isinstance(_built[name], Missing):
            raise _built[name]
        return list(_built[name])


class Slots:
    """Lets two virtual machines start at a time: a dozen at once miss their own time-outs on two cores."""

    def __init__(self, n):
        self.free = threading.Semaphore(n)

    def take(self):
        self.free.acquire()
        done = threading.Event()
        return lambda: None if done.is_set() else (done.set(), self.free.release())


_slots = Slots(2)


class Run:
    """A running client program; its lines are collected as they come."""

    def __init__(self, name, action, folder, namesrv, binary=False, program=None, **options):
        self.name, self.lines, self.condition = name, [], threading.Condition()
        argv = command(name)
        if program:  # another class beside Scenario
            argv[-1] = program
        if binary:
            argv.insert(1, "-Drocketmq.serialize.type=ROCKETMQ")
        argv += [action, "--namesrv", namesrv]
        for key, value in options.items():
            for v in value if isinstance(value, (list, tuple)) else [value]:
                argv += ["--" + key, str(v)]
        self.errors = open(os.path.join(folder, f"{name}-{action}-{time.monotonic_ns()}.err"), "w+b")
        # The libraries write logs and offset files below the home folder: they belong into the test's one.
        env = dict(os.environ, HOME=folder, GOTRACEBACK="single")
        if name.startswith("java"):
            argv.insert(1, "-Duser.home=" + folder)
        self.up = lambda: None
        if name.startswith("java"):
            self.up = _slots.take()
            timer = threading.Timer(8, self.up)
            timer.daemon = True
            timer.start()
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, env=env, cwd=folder)
        live.add(self)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for raw in self.process.stdout:
            try:
                o = json.loads(raw)
            except ValueError:
                o = {"noise": raw.decode(errors="replace").rstrip()}
            o["at"] = time.monotonic()
            self.up()
            with self.condition:
                self.lines.append(o)
                self.condition.notify_all()
        self.up()
        with self.condition:
            self.condition.notify_all()

    def received(self):
        with self.condition:
            return [l for l in self.lines if "sha256" in l]

    def acknowledged(self):
        with self.condition:
            return [l for l in self.lines if l.get("status") == "SEND_OK"]

    def complaints(self):
        with self.condition:
            return [l for l in self.lines if "error" in l or "noise" in l or l.get("event") == "error"]

    def until(self, what, condition, seconds):
        """Waits until condition(self) holds; fails with what and the last lines."""
        end = time.monotonic() + seconds
        while True:
            value = condition(self)
            if value:
                return value
            left = end - time.monotonic()
            if left <= 0 or (self.process.poll() is not None and not self.reader.is_alive() and not condition(self)):
                raise AssertionError(f"{self.name}: {what} not within {seconds} s; {self.describe()}")
            with self.condition:
                self.condition.wait(min(left, 0.2))

    def started(self, seconds=30):
        return self.until("started", lambda r: any(l.get("event") == "started" for l in r.lines), seconds)

    def wait(self, seconds=90):
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name}: did not end within {seconds} s; {self.describe()}")
        self.reader.join(10)
        live.discard(self)
        return code

    def stop(self, seconds=30):
        """SIGTERM: a clean leave."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self):
        live.discard(self)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(10)

    def describe(self):
        self.errors.seek(0)
        return f"{len(self.received())} received, complaints {self.complaints()[:3]}, stderr {self.errors.read().decode(errors='replace')[-800:]!r}"


def write_messages(folder, messages):
    path = os.path.join(folder, f"messages-{time.monotonic_ns()}.txt")
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(m.line() + "\n" for m in messages)
    return path
