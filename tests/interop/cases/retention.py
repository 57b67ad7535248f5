"""Old messages go, full disks refuse: by RocketMQ's rules, and without losing what was accepted."""
import os
import shutil
import subprocess

from lib import clients
from lib import cluster as clusters
from lib import remoting
from lib.runner import case

from .clients import create_topic, unique, wait_routed

QUEUES = 4
LOG_FILE = 65536
SIZES = '[storage.options]\ncommitlog_file = "64KiB"\nqueue_file_bytes = 2000\nindex_slots = 100\nindex_items = 200\n[send]\nmessage_max_bytes = "32KiB"\n'
JAVA_SIZES = ["mappedFileSizeCommitLog=65536", "mappedFileSizeConsumeQueue=2000", "maxHashSlotNum=100", "maxIndexNum=200", "maxMessageSize=32768", "fileReservedTime=87600", "diskMaxUsedSpaceRatio=95",
              "cleanFileForciblyEnable=false"]


def files(store, *folder):
    return sorted(os.listdir(os.path.join(store, *folder)))


def send(c, topic, n, size=600):
    """@return (queue, queue offset, physical offset)"""
    a = c.send(topic, (b"%d " % n).ljust(size, b"x"), n % QUEUES, {"KEYS": f"key-{n}", "TAGS": "T"})
    assert a.code == 0, (a.code, a.remark)
    return n % QUEUES, int(a.ext["queueOffset"]), int(a.ext["msgId"][16:], 16)


def bounds(c, topic):
    return [(c.offset(remoting.MIN_OFFSET, topic, q), c.offset(remoting.MAX_OFFSET, topic, q)) for q in range(QUEUES)]


@case("retention", needs=("java", "java-4.9.8"))
def retention(ctx):
    """An operator deletes expired files: queues and index follow, an old consumer is corrected, Java opens the folder."""
    cluster = ctx.keep(clusters.Tenon(ctx.temp("tenon"), config='[retention]\nfile_reserved_hours = 0\ndelete_when = ""\nround_ms = 100\nclean_forcibly = false\ndisk_clean_pct = 100\ndisk_full_pct = 100\n' + SIZES).start())
    topic, group = unique("Retention_"), unique("RetentionGroup_")
    create_topic(cluster, topic, QUEUES)
    with remoting.Client(cluster.broker) as c:
        sent = [send(c, topic, n) for n in range(900)]
        for q in range(QUEUES):
            assert c.call(remoting.UPDATE_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": q, "commitOffset": 3}).code == 0
        clusters.wait_for("the key index", lambda: c.query(topic, "key-899")[0] == 0)
        before = {f: files(cluster.store, *f) for f in (("commitlog",), ("consumequeue", topic, "0"), ("index",))}
        ctx.sub("kept-before", [] if bounds(c, topic) == [(0, 225)] * QUEUES else [f"{bounds(c, topic)}"])
        out = clusters.mqadmin(cluster.namesrv, "deleteExpiredCommitLog", "-b", cluster.broker)
        assert "success" in out, out[-700:]
        written = sent[-1][2] // LOG_FILE * LOG_FILE  # the file that is being written stays, and what is prepared behind it
        clusters.wait_for("the deletion of all files but the last", lambda: int(files(cluster.store, "commitlog")[0]) == written)
        out = clusters.mqadmin(cluster.namesrv, "cleanExpiredCQ", "-b", cluster.broker)
        assert "success" in out, out[-700:]
        first = int(files(cluster.store, "commitlog")[0])
        left = [n for n, (_, _, at) in enumerate(sent) if at >= first]
        want = [(min(sent[n][1] for n in left if sent[n][0] == q), 225) for q in range(QUEUES)]
        bad = [] if len(left) >= 10 and clusters.wait_for("the minimum offsets", lambda: bounds(c, topic) == want) else [f"only {len(left)} left"]

        def not_shortened():
            after = {f: files(cluster.store, *f) for f in before}
            return [f"{f}: {before[f]} became {after[f]}" for f in before if f[0] != "commitlog" and not (len(after[f]) < len(before[f]) and after[f][-1] == before[f][-1])]
        clusters.wait_for(f"shorter queues and index than {before}", lambda: not not_shortened())
        bad += [f"a query finds {n}: {c.query(topic, f'key-{n}')[0]}" for n in (0, 100, left[0] - 1) if c.query(topic, f"key-{n}")[0] != 22]
        bad += [f"a query does not find {n}" for n in (left[0], 899) if [r.physical for r in c.query(topic, f"key-{n}")[1]] != [sent[n][2]]]
        for q in range(QUEUES):
            a = c.pull(topic, q, 0)
            bad += [] if (a.code, a.ext.get("nextBeginOffset")) == (21, str(want[q][0])) else [f"pull at 0 of queue {q}: {a.code} {a.ext}"]
        ctx.sub("deleted-behind", bad)
        records = {q: [r.sha for r in c.read_queue(topic, q)] for q in range(QUEUES)}
    run = ctx.client("java-4.9.8", "consume", cluster.namesrv, group=group, topic=topic, expect=len(left), timeout=40, quiet=1)
    run.wait(60)
    got = sorted((l["queueId"], l["queueOffset"]) for l in run.received())
    ctx.sub("old-consumer", [] if got == sorted(sent[n][:2] for n in left) else [f"{len(got)} received, {len(left)} left; {run.describe()}"])
    cluster.stop()
    folder = ctx.temp("java")
    clusters.copy_store(cluster.store, os.path.join(folder, "store"))
    java = ctx.keep(clusters.Java(folder, settings=JAVA_SIZES).start())
    wait_routed(java, topic)
    with remoting.Client(java.broker) as c:
        bad = [] if bounds(c, topic) == want else [f"bounds in Java are {bounds(c, topic)}, not {want}"]
        bad += [f"records of queue {q} differ" for q in range(QUEUES) if [r.sha for r in c.read_queue(topic, q)] != records[q]]
        bad += [f"a query in Java does not find {n}" for n in (left[0], 899) if [r.physical for r in c.query(topic, f"key-{n}")[1]] != [sent[n][2]]]
        bad += [] if send(c, topic, 900)[:2] == (0, 225) else ["a send to Java does not go on"]
    ctx.sub("java-opens-it", bad)


class SmallDisk:
    """A file system of a few megabytes, and something that fills it."""

    def __init__(self, folder, megabytes):
        self.folder = folder
        os.makedirs(folder)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise clients.Missing("mounting a small disk needs a privilege: " + done.stdout.strip())
        self.ballast = os.path.join(folder, "ballast")
        self.megabytes = megabytes

    def fill_to(self, percent):
        fs = os.statvfs(self.folder)
        wanted = int(fs.f_blocks * percent / 100) - (fs.f_blocks - fs.f_bfree)
        with open(self.ballast, "wb") as f:
            try:
                f.write(b"b" * (max(wanted, 0) * fs.f_frsize))
            except OSError:
                pass  # full to the last byte

    def relieve(self):
        os.unlink(self.ballast)

    def stop(self):
        subprocess.run(["umount", "-l", self.folder], check=False)


def disk_case(ctx, percent, config, code, remark):
    disk = ctx.keep(SmallDisk(os.path.join(ctx.temp("small"), "disk"), 24))
    cluster = clusters.Tenon(ctx.temp("tenon"), store=os.path.join(disk.folder, "store"), config=config + SIZES)
    ctx.keep(cluster.start())
    topic = unique("SmallDisk_")
    create_topic(cluster, topic, QUEUES)
    with remoting.Client(cluster.broker) as c:
        sent = [send(c, topic, n) for n in range(200)]
        disk.fill_to(percent)

        def refused():
            a = c.send(topic, b"x" * 20000, 0)
            if a.code == 0:
                sent.append((0, int(a.ext["queueOffset"]), int(a.ext["msgId"][16:], 16)))
            return a.code != 0 and a
        a = clusters.wait_for("the refusal", refused)
        ctx.sub("refused", [] if a.code == code and remark in (a.remark or "") else [f"{a.code} {a.remark}"])
        readable = {q: [r.physical for r in c.read_queue(topic, q)] for q in range(QUEUES)}
        wanted = {q: [at for queue, _, at in sent if queue == q] for q in range(QUEUES)}
        ctx.sub("reading-goes-on", [] if readable == wanted else ["what was accepted is not read"])
        disk.relieve()
        clusters.wait_for("sends again", lambda: not refused())
        sent += [send(c, topic, n) for n in range(200)]
    cluster.stop()
    cluster.start()
    with remoting.Client(cluster.broker) as c:
        found = {q: [r.physical for r in c.read_queue(topic, q)] for q in range(QUEUES)}
    wanted = {q: [at for queue, _, at in sent if queue == q] for q in range(QUEUES)}
    ctx.sub("all-there-after-a-restart", [] if found == wanted else ["differs"])
    cluster.stop()


@case("disk-above-the-limit")
def disk_above(ctx):
    """Above 90 % of a small file system sends are refused with Java's remark, and accepted when space returns."""
    disk_case(ctx, 93, "[retention]\nround_ms = 100\nclean_forcibly = false\n", 14, "the broker's disk is full [CL: ")


@case("disk-without-space")
def disk_full(ctx):
    """A file system without a free block: refused, not killed by a signal, and accepted when space returns."""
    disk_case(ctx, 100, "[retention]\nround_ms = 100\nclean_forcibly = false\ndisk_full_pct = 100\n", 14, "the broker's disk is full [CL: ")


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int msync(void* at, size_t bytes, int flags) {
  if (access(getenv("BROKEN_DISK"), F_OK) == 0) { errno = EIO; return -1; }
  return ((int (*)(void*, size_t, int))dlsym(RTLD_NEXT, "msync"))(at, bytes, flags);
}
"""


@case("sync-flush-error")
def sync_flush_error(ctx):
    """A disk that fails under flush = "sync": no acknowledgement any more, the process ends with an error, nothing acknowledged is lost."""
    folder, port = ctx.temp("broken"), clusters.free_port((0, -2))
    shim, trigger = os.path.join(folder, "shim.so"), os.path.join(folder, "broken")
    if not shutil.which("cc"):
        raise clients.Missing("no C compiler")
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", shim, "-ldl"], input=SHIM, text=True, check=True)
    argv = clusters.broker_argv(folder, port, "127.0.0.1:1")
    with open(os.path.join(folder, "broker.toml"), "a") as f:
        f.write('[storage.options]\nflush = "sync"\n')
    ready, log = (lambda: clusters.listening(f"127.0.0.1:{port}")), os.path.join(folder, "broker.log")
    broker = clusters.Process(argv, log, ready, env=dict(os.environ, LD_PRELOAD=shim, BROKEN_DISK=trigger))
    topic = unique("BrokenDisk_")
    try:
        with remoting.Client(f"127.0.0.1:{port}") as c:
            sent = [send(c, topic, n) for n in range(40)]
            open(trigger, "w").close()
            try:
                a = c.send(topic, b"lost", 0)
                ctx.sub("no-acknowledgement", [] if a.code != 0 else ["acknowledged"])  # 10 says: not on the disk
            except OSError:
                pass  # the process was faster
        code = broker.process.wait(15)
        ctx.sub("exit-code", [] if code > 0 and "sync" in broker.text() else [f"{code}: {broker.text()[-500:]}"])
    finally:
        broker.kill()
    broker = clusters.Process(argv, log, ready)
    try:
        with remoting.Client(f"127.0.0.1:{port}") as c:
            found = {(q, r.offset, r.physical) for q in range(QUEUES) for r in c.read_queue(topic, q)}
            assert found.issuperset(sent), sorted(set(sent) - found)
    finally:
        broker.stop()
