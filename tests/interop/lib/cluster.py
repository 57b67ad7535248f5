"""Clusters under test: Tenon's own programs and the official Java ones, on loopback, in temporary folders."""
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(HERE))
BIN = os.environ.get("TENON_BIN", os.path.join(ROOT, "build", "release", "bin"))
_used, _ports = set(), threading.Lock()
# For brokers with a file; neither the disk of the machine nor the age of a recorded folder decides what a test sees.
KEEP_ALL = "[retention]\nfile_reserved_hours = 87600\nclean_forcibly = false\ndisk_full_pct = 100\n"
live = set()  # what runs outside of this process tree or must not outlive it; see end_everything()


def end_everything():
    """For a run that is broken off: kills whatever is still there."""
    for thing in list(live):
        try:
            thing.kill()
        except Exception as e:
            print(f"could not end {thing}: {e}")


def free_port(neighbours=(0,)):
    """A port below the ephemeral range whose neighbours (fast port, HA port) are free too."""
    for _ in range(2000):
        port = random.SystemRandom().randrange(22100, 29900)  # a test may have set the seed
        wanted = [port + n for n in neighbours]
        with _ports:
            if _used.intersection(wanted):
                continue
            _used.update(wanted)
        try:
            for p in wanted:
                with socket.socket() as s:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    s.bind(("127.0.0.1", p))
        except OSError:
            continue
        return port
    raise RuntimeError("no free port between 22100 and 29900")


def wait_for(what, condition, seconds=15, every=0.02):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(every)
    raise AssertionError(f"{what}: not within {seconds} s")


def listening(address):
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 1).close()
        return True
    except OSError:
        return False


def memory_kb(pid, name="RssAnon"):
    with open(f"/proc/{pid}/status") as f:
        return next(int(l.split()[1]) for l in f if l.startswith(name + ":"))


class Process:
    """A server program with its log file; stop() is SIGTERM and checks that it ends by itself."""

    def __init__(self, argv, log, ready=None, seconds=20, env=None):
        self.log = log
        self.output = open(log, "ab")
        self.begin = os.path.getsize(log)
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT, env=env)
        live.add(self)
        t0 = time.monotonic()
        try:
            while ready and not ready():
                if self.process.poll() is not None:
                    raise AssertionError(f"{argv[0]} ended with {self.process.returncode}: {self.text()[-2000:]}")
                if time.monotonic() - t0 > seconds:
                    raise AssertionError(f"{' '.join(argv)} did not serve within {seconds} s: {self.text()[-2000:]}")
                time.sleep(0.005)
        except BaseException:
            self.kill()
            raise
        self.start_seconds = time.monotonic() - t0

    @property
    def pid(self):
        return self.process.pid

    def text(self):
        with open(self.log, "rb") as f:
            f.seek(self.begin)
            return f.read().decode(errors="replace")

    def stop(self, seconds=20):
        live.discard(self)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"did not stop within {seconds} s after SIGTERM: {self.text()[-1500:]}")
        self.output.close()
        assert self.process.returncode in (0, -signal.SIGTERM), f"ended with {self.process.returncode}: {self.text()[-2000:]}"

    def kill(self):
        live.discard(self)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.output.close()


class Tenon:
    """`tenon dev`: name server and broker in one process."""
    kind = "tenon"

    def __init__(self, folder, store=None, memory=False, config=""):
        """config: text of a broker's configuration file; without a table [retention], nothing is deleted."""
        self.folder, self.memory, self.config = folder, memory, config if not config or "[retention]" in config else f"{config}\n{KEEP_ALL}"
        os.makedirs(folder, exist_ok=True)
        self.store = store or os.path.join(folder, "store")
        self.namesrv_port, self.broker_port = free_port(), free_port((0, -2, 1))
        self.namesrv, self.broker = f"127.0.0.1:{self.namesrv_port}", f"127.0.0.1:{self.broker_port}"
        self.process = None

    def argv(self):
        more = []
        if self.config:
            path = os.path.join(self.folder, "broker.toml")
            with open(path, "w") as f:
                f.write(self.config)
            more = ["--config", path]
        return [os.path.join(BIN, "tenon"), "dev", "--namesrv-port", str(self.namesrv_port), "--broker-port", str(self.broker_port)] + (["--memory"] if self.memory else ["--store", self.store]) + more

    def start(self):
        self.process = Process(self.argv(), os.path.join(self.folder, "tenon.log"), lambda: listening(self.namesrv) and listening(self.broker))
        return self

    def stop(self):
        if self.process:
            process, self.process = self.process, None
            process.stop()

    def kill(self):
        if self.process:
            self.process.kill()
            self.process = None

    @property
    def pid(self):
        return self.process.pid


def namesrv_argv(folder, port):
    """Command line of our name server alone; its key-value file lies in folder."""
    return [os.path.join(BIN, "tenon-namesrv"), "--host", "127.0.0.1", "--port", str(port), "--kv-config", os.path.join(folder, "kvConfig.json")]


def broker_argv(folder, port, namesrv):
    """Command line of our broker alone; its file and its store lie in folder."""
    path = os.path.join(folder, "broker.toml")
    with open(path, "w") as f:
        f.write(f'[broker]\nname = "broker-t"\nlisten_host = "127.0.0.1"\nport = {port}\nnamesrv = ["{namesrv}"]\nstore_root = "{folder}/store"\n{KEEP_ALL}')
    return [os.path.join(BIN, "tenon-broker"), "--config", path]


class Program:
    """One of our servers alone."""

    def __init__(self, argv, folder, address):
        self.process = Process(argv, os.path.join(folder, os.path.basename(argv[0]) + ".log"), lambda: listening(address))

    def stop(self):
        self.process.stop()


class Java:
    """The official name server and broker through java_cluster.sh."""
    kind = "java"

    def __init__(self, folder, version="4.9.7", namesrv=None, settings=()):
        self.folder, self.version, self.settings = folder, version, list(settings)
        os.makedirs(folder, exist_ok=True)
        self.store = os.path.join(folder, "store")
        self.namesrv_port = 0 if namesrv else free_port()
        self.broker_port = free_port((0, -2, 1))
        self.namesrv, self.broker = namesrv or f"127.0.0.1:{self.namesrv_port}", f"127.0.0.1:{self.broker_port}"
        if namesrv:
            self.settings.append("namesrvAddr=" + namesrv)
        self.settings.append(f"haListenPort={self.broker_port + 1}")
        self.env = dict(os.environ, ROCKETMQ_VERSION=version, JAVA_OPTS="-Xms192m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MaxDirectMemorySize=512m")

    def _script(self, *args):
        done = subprocess.run([os.path.join(HERE, "java_cluster.sh"), args[0], self.folder, *args[1:]], env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        assert done.returncode == 0, f"java_cluster.sh {args[0]}: {done.stdout[-2000:]}"
        return done.stdout

    def start(self):
        live.add(self)
        try:
            self._begin()
        except BaseException:
            self.stop()
            raise
        return self

    def _begin(self):
        self._script("start", str(self.namesrv_port), str(self.broker_port), *self.settings)
        if self.namesrv_port:  # the broker registers before it listens, but not necessarily before the script returns
            from . import remoting

            def registered():
                with remoting.Client(self.namesrv) as c:
                    return c.route("TBW102")
            wait_for("registration of the Java broker", registered, 60)

    def stop(self):
        live.discard(self)
        self._script("stop")

    def kill(self):
        self._script("kill")
        self._script("stop")

    def mqadmin(self, *args):
        return mqadmin(self.namesrv, *args)


class JavaNameServer:
    def __init__(self, folder, version="4.9.7"):
        self.jars = peer_jars(version)
        os.makedirs(os.path.join(folder, "conf"), exist_ok=True)
        for name, text in (("logback_namesrv.xml", '<configuration><root level="OFF"/></configuration>'), ("rmq.namesrv.logback.xml", "<configuration/>")):
            with open(os.path.join(folder, "conf", name), "w") as f:
                f.write(text)
        port = free_port()
        self.namesrv = f"127.0.0.1:{port}"
        with open(os.path.join(folder, "namesrv.conf"), "w") as f:
            f.write(f"listenPort={port}\n")
        self.process = Process(["java", "-Xms64m", "-Xmx128m", "-XX:+UseSerialGC", "-cp", self.jars, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", os.path.join(folder, "namesrv.conf")],
                               os.path.join(folder, "namesrv.log"), lambda: listening(self.namesrv), env=dict(os.environ, ROCKETMQ_HOME=folder))

    def stop(self):
        self.process.kill()


def peer_jars(version="4.9.7"):
    cache = os.environ.get("PEER_JARS") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rocketmq-peer")
    return os.path.join(cache, version, "*")


def mqadmin(namesrv, *args, seconds=120, version="4.9.7"):
    """Output of the official admin tool."""
    home = os.path.join(ROOT, "build", "interop", "mqadmin-home")
    os.makedirs(os.path.join(home, "conf"), exist_ok=True)
    config = os.path.join(home, "conf", "logback_tools.xml")
    if not os.path.exists(config):
        with open(config, "w") as f:
            f.write('<configuration><root level="OFF"/></configuration>')
        with open(os.path.join(home, "conf", "rmq.tools.logback.xml"), "w") as f:
            f.write("<configuration/>")
    done = subprocess.run(["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Drocketmq.namesrv.addr={namesrv}", f"-Duser.home={home}", "-cp", peer_jars(version),
                           "org.apache.rocketmq.tools.command.MQAdminStartup", *args],
                          cwd=home, env=dict(os.environ, ROCKETMQ_HOME=home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)  # consumerStatus writes files where it runs
    return done.stdout


def copy_store(source, target):
    """Copies a store folder; its pre-allocated files are sparse and stay so."""
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
