"""A log over two folders (storePathCommitLog of several paths): Java writes, Tenon goes on, Java goes on, each over several files."""
import os

from lib import cluster as clusters
from lib import remoting
from lib.runner import case

from .clients import unique
from .store import tool

SIZE = 65536
CONFIG = '[storage.options]\ncommitlog_folder = "{a},{b}"\ncommitlog_readonly_folders = "{old}"\n[send]\nmessage_max_bytes = "32KiB"\n'
JAVA = ["mappedFileSizeCommitLog=65536", "maxMessageSize=32768", "fileReservedTime=87600", "diskMaxUsedSpaceRatio=95", "cleanFileForciblyEnable=false"]


def send_all(c, topic, numbers):
    for n in numbers:
        a = c.send(topic, b"n%d " % n + b"x" * 700, n % 4, {"KEYS": f"key-{n}"})
        assert a.code == 0, (n, a.code, a.remark)


def contents(c, topic, numbers):
    """What is served, all of it, after the index has the last."""
    clusters.wait_for("the queues", lambda: sum(c.offset(remoting.MAX_OFFSET, topic, q) for q in range(4)) == len(numbers))
    clusters.wait_for("the key index", lambda: c.query(topic, f"key-{numbers[-1]}")[0] == 0)
    found = {q: c.read_queue(topic, q) for q in range(4)}
    keys = {r.props["KEYS"]: r.raw for q in range(4) for r in found[q]}
    assert sorted(keys) == sorted(f"key-{n}" for n in numbers), (len(keys), len(numbers))
    for n in numbers[::23]:
        code, by_key = c.query(topic, f"key-{n}")
        assert code == 0 and by_key[0].raw == keys[f"key-{n}"], (n, code)
    return {q: [r.raw for r in found[q]] for q in found}


def places(*folders):
    """Folder of each log file, by its number; blank ones that were made ahead count too."""
    found = {}
    for at, folder in enumerate(folders):
        for name in os.listdir(folder):
            assert found.setdefault(int(name) // SIZE, at) == at, (name, folders)
    assert sorted(found) == list(range(len(found))), found
    return [found[n] for n in sorted(found)]


def spread(ctx, version, killed):
    folder = ctx.temp("java")
    old, a, b = (os.path.join(folder, name) for name in ("log-old", "log-a", "log-b"))
    java = clusters.Java(folder, version=version, namesrv=f"127.0.0.1:{clusters.free_port()}", settings=JAVA + [f"storePathCommitLog={b},{a}", f"readOnlyCommitLogStorePaths={old}"])
    os.mkdir(old)
    topic = unique("Spread_")
    ctx.keep(java.start())
    with remoting.Client(java.broker) as c:
        made = c.call(remoting.UPDATE_TOPIC, {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}).code
        assert made == 0, made
        send_all(c, topic, range(400))
        before = contents(c, topic, range(400))
    if killed:
        java.kill()
    else:
        java.stop()
    by_java = places(old, a, b)
    assert by_java.count(1) >= 3 and by_java.count(2) >= 2 and all(at == 1 + n % 2 for n, at in enumerate(by_java)), by_java
    for number, name in ((0, a), (1, b)):  # as if they were from the time of another disk
        os.rename(os.path.join(name, f"{number * SIZE:020}"), os.path.join(old, f"{number * SIZE:020}"))
    by_java[:2] = [0, 0]

    tenon = ctx.keep(clusters.Tenon(ctx.temp("tenon"), store=java.store, config=CONFIG.format(a=a, b=b, old=old)).start())
    with remoting.Client(tenon.broker) as c:
        assert contents(c, topic, range(400)) == before
        send_all(c, topic, range(400, 700))
        later = contents(c, topic, range(700))
    tenon.kill() if killed else tenon.stop()
    by_tenon = places(old, a, b)
    assert by_tenon[:len(by_java) - 1] == by_java[:-1] and len(by_tenon) >= len(by_java) + 3, (by_java, by_tenon)
    # File n lies in the n-th folder, modulo their number, whoever made it.
    assert all(at == 0 or at == 1 + n % 2 for n, at in enumerate(by_tenon)), by_tenon

    java.start()
    with remoting.Client(java.broker) as c:
        assert contents(c, topic, range(700)) == later
        send_all(c, topic, range(700, 900))
        end = contents(c, topic, range(900))
    java.kill()
    tenon.start()
    with remoting.Client(tenon.broker) as c:
        assert contents(c, topic, range(900)) == end
    tenon.stop()
    checked = tool("check", java.store, "--commitlog-folder", f"{a},{b}", "--commitlog-readonly-folders", old)
    assert "all is well" in checked, checked
    return f"files in {''.join('oab'[at] for at in places(old, a, b))}"


@case("java-4.9.7-log-over-folders", needs=("java",))
def spread_4(ctx):
    """Clean stops, except for the last of Java."""
    return spread(ctx, "4.9.7", killed=False)


@case("java-5.3.3-log-over-folders", needs=("java",))
def spread_5(ctx):
    """Java and Tenon killed in between."""
    return spread(ctx, "5.3.3", killed=True)
