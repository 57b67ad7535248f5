"""Registers, selects and runs the named tests; one line each and a closing line."""
import collections
import concurrent.futures
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback

from . import clients, cluster

Case = collections.namedtuple("Case", "name function java_too needs alone")
CASES = []


def case(name, java_too=False, needs=(), alone=False):
    """A test. java_too: also meaningful against the Java broker (--against java). needs: clients or 'java'.
    alone: measures times or memory, so nothing runs beside it; the others mostly wait and run several at a time."""
    def register(function):
        CASES.append(Case(name, function, java_too, needs, alone))
        return function
    return register


class Context:
    """What one test gets: a folder, clusters that are stopped afterwards, and sub-results."""

    def __init__(self, runner, name, folder):
        self.runner, self.name, self.folder, self.cleanup, self.count = runner, name, folder, [], 0
        os.makedirs(folder, exist_ok=True)

    def temp(self, name):
        self.count += 1
        path = os.path.join(self.folder, f"{self.count}-{name}")
        os.makedirs(path)
        return path

    def shared(self):
        """The cluster that all undisturbing tests use together."""
        return self.runner.shared_cluster()

    def fresh(self, **kw):
        c = self.runner.new_cluster(self.temp("cluster"), **kw).start()
        self.cleanup.append(c)
        return c

    def keep(self, thing):
        """thing.stop() or, for client programs, thing.kill() when the test is over."""
        self.cleanup.append(thing)
        return thing

    def client(self, name, action, namesrv, **options):
        return self.keep(clients.Run(name, action, self.temp(name), namesrv, **options))

    def produce(self, name, namesrv, messages, seconds=90, **options):
        run = self.client(name, "produce", namesrv, messages=clients.write_messages(self.folder, messages), **options)
        code = run.wait(seconds)
        assert code == 0 and len(run.acknowledged()) == len(messages), f"{name} produce: exit {code}, {len(run.acknowledged())} of {len(messages)} acknowledged; {run.describe()}"
        return run

    def sub(self, name, complaints):
        """A result of its own inside this test."""
        self.runner.result(f"{self.name}/{name}", "FAIL" if complaints else "PASS", 0, "; ".join(complaints[:5]) if complaints else "")

    def close(self):
        for thing in reversed(self.cleanup):
            try:
                thing.kill() if isinstance(thing, clients.Run) else thing.stop()
            except Exception as e:  # a server that does not stop cleanly is a failure of its own
                self.runner.result(self.name + "/stop", "FAIL", 0, str(e))


class Runner:
    def __init__(self, against, selected, keep, no_skip, jobs):
        self.against, self.selected, self.keep, self.no_skip, self.jobs = against, selected, keep, no_skip, jobs
        self.root = tempfile.mkdtemp(prefix="tenon-interop-")
        self.lock, self.shared, self.counts = threading.Lock(), None, collections.Counter()
        self.failures = []

    def new_cluster(self, folder, **kw):
        return cluster.Java(folder, **kw) if self.against == "java" else cluster.Tenon(folder, **kw)

    def shared_cluster(self):
        with self.lock:
            if self.shared is None:
                self.shared = self.new_cluster(os.path.join(self.root, "shared"))
                self.shared.start()
            return self.shared

    def result(self, name, outcome, seconds, text=""):
        if outcome == "SKIP" and self.no_skip:
            outcome, text = "FAIL", "skipped, but nothing may be skipped: " + text
        with self.lock:
            self.counts[outcome] += 1
            if outcome == "FAIL":
                self.failures.append(f"{name}: {text}")
            print(f"{outcome} {name} {seconds:.1f} s" + (f": {text}" if text else ""), flush=True)

    def run_case(self, c):
        t0 = time.monotonic()
        ctx = Context(self, c.name, os.path.join(self.root, c.name.replace("/", "_")))
        try:
            for need in c.needs:
                if need in clients.NAMES:
                    clients.command(need)
                elif need == "java" and not shutil.which("java"):
                    raise clients.Missing("java is not installed (tests/install_packages.sh interop)")
            text = c.function(ctx)
            outcome, text = "PASS", text or ""
        except clients.Missing as e:
            outcome, text = "SKIP", str(e)
        except AssertionError as e:
            frame = traceback.extract_tb(e.__traceback__)[-1]
            outcome, text = "FAIL", f"{e or 'assertion'} ({os.path.basename(frame.filename)}:{frame.lineno} {frame.line})"
        except Exception as e:
            frames = traceback.extract_tb(e.__traceback__)
            frame = next((f for f in reversed(frames) if "interop" in f.filename), frames[-1])
            outcome, text = "FAIL", f"{type(e).__name__}: {e} ({os.path.basename(frame.filename)}:{frame.lineno} {frame.line})"
        ctx.close()
        self.result(c.name, outcome, time.monotonic() - t0, text)
        if not self.keep:
            cluster.remove(ctx.folder)

    def run(self):
        t0 = time.monotonic()
        chosen = [c for c in CASES if (not self.selected or any(s in c.name for s in self.selected)) and (self.against == "tenon" or c.java_too)]
        try:
            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                list(pool.map(self.run_case, [c for c in chosen if not c.alone]))
            for c in chosen:
                if c.alone:
                    self.run_case(c)
        finally:
            if self.shared:
                try:
                    self.shared.stop()
                except Exception as e:
                    self.result("shared cluster/stop", "FAIL", 0, str(e))
            if self.keep:
                print(f"folders kept in {self.root}")
            else:
                cluster.remove(self.root)
        print(f"interop took {time.monotonic() - t0:.0f} s against {self.against}")
        if self.failures:
            print("failed:\n  " + "\n  ".join(self.failures))
        n = self.counts
        print(f"{n['PASS']} passed, {n['FAIL']} failed, {n['SKIP']} skipped", flush=True)
        return 1 if n["FAIL"] or not sum(n.values()) else 0
