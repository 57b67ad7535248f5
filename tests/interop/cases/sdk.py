"""Our client library and our command-line tool, against Tenon and against the Java broker; our members among Java's."""
import json
import os
import re
import subprocess

from lib import cluster as clusters
from lib import messages as msg
from lib import remoting
from lib.clients import write_messages
from lib.runner import case

from .clients import create_topic, unique

TESTS = os.path.join(os.path.dirname(clusters.BIN), "tests")


def registered(cluster):
    with remoting.Client(cluster.namesrv) as c:
        return b"DefaultCluster" in c.call(remoting.CLUSTER_INFO).body


def run_program(ctx, cluster, program, *more, **env):
    return subprocess.run([os.path.join(TESTS, program), "--namesrv", cluster.namesrv, "--cluster", "DefaultCluster", *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=480, env=dict(os.environ, HOME=ctx.temp("home"), **env), cwd=ctx.folder)


def round_trip(ctx, cluster, program="sdk_roundtrip", *more, **env):
    clusters.wait_for("registration of the broker", lambda: registered(cluster), 30)
    done = run_program(ctx, cluster, program, *more, **env)
    assert done.returncode == 0, "; ".join(l for l in done.stdout.splitlines() if re.search("FAILED|FAIL|line", l))[:900] or done.stdout[-900:]
    return f"{sum(l.endswith(' ms') for l in done.stdout.splitlines())} parts"


@case("sdk-on-our-broker")
def sdk_ours(ctx):
    """tests/integration/sdk_roundtrip on Tenon."""
    return round_trip(ctx, ctx.shared())


@case("sdk-features-on-our-broker")
def features_ours(ctx):
    """tests/integration/sdk_features on Tenon: order, subscriptions, transactions, requests, delay."""
    return round_trip(ctx, ctx.shared(), "sdk_features")


@case("sdk-features-on-java-broker", java_too=True, needs=("java",))
def features_java(ctx):
    """The same program on the Java broker 4.9.7."""
    return round_trip(ctx, ctx.keep(clusters.Java(ctx.temp("java")).start()), "sdk_features")


@case("sdk-features-on-java-5", java_too=True, needs=("java",))
def features_java_5(ctx):
    """The same program on the Java broker 5.3.3."""
    return round_trip(ctx, ctx.keep(clusters.Java(ctx.temp("java"), version="5.3.3", settings=["recallMessageEnable=true"]).start()), "sdk_features")


@case("sdk-trace-in-java-tool", java_too=True, needs=("java",))
def trace_in_tool(ctx):
    """Trace records of our producer and consumer are shown by the official queryMsgTraceById."""
    cluster = ctx.shared()
    clusters.wait_for("registration of the broker", lambda: registered(cluster), 30)
    done = run_program(ctx, cluster, "sdk_features", "--only", "trace")
    assert done.returncode == 0, done.stdout[-900:]
    ident = re.search(r"^traced (\w+)$", done.stdout, re.M).group(1)

    def kinds():  # the last record may be under way to the index
        rows = [l.split() for l in clusters.mqadmin(cluster.namesrv, "queryMsgTraceById", "-i", ident).splitlines()]
        return {r[0] for r in rows if r and r[-1] == "success"}
    clusters.wait_for("records of both sides", lambda: {"Pub", "Sub"} <= kinds(), 40, every=0.5)


def queues_of(broker, group, client, topic):
    """The queues of the topic that a running member says it owns."""
    with remoting.Client(broker) as c:
        a = c.call(307, {"consumerGroup": group, "clientId": client, "jstackEnable": "false"})
    if a.code != 0:
        return None
    text = a.body.decode()
    # Java writes objects as keys, so this is no JSON; a queue is named in mqTable and nowhere else
    return {int(re.search(r'"queueId":(\d+)', q).group(1)) for q in re.findall(r"\{[^{}]*\}", text) if '"queueId"' in q and f'"topic":"{topic}"' in q}


def averagely(members, queues):
    """Who gets what by AVG (client §5.7)."""
    out, at = {}, 0
    for i, member in enumerate(sorted(members)):
        n = queues // len(members) + (1 if i < queues % len(members) else 0)
        out[member] = set(range(at, at + n))
        at += n
    return out


@case("sdk-in-java-group", java_too=True, needs=("java-4.9.8", "java-5.3.3", "go"))
def java_group(ctx):
    """Two Java consumers, one in Go and two of ours in one group: each owns just what AVG gives it; after two have gone the others share all."""  # client §14.49
    cluster, topic, group = ctx.shared(), unique("SdkMixed_"), unique("SdkMixedGroup_")
    create_topic(cluster, topic, 10)
    java = [ctx.client(n, "consume", cluster.namesrv, group=group, topic=topic, timeout=240) for n in ("java-4.9.8", "java-5.3.3", "go")]
    folder = ctx.temp("ours")
    ours = [ctx.keep(clusters.Process([os.path.join(clusters.BIN, "tenon"), "--json", "--namesrv", cluster.namesrv, "consume", "-t", topic, "-g", group, "--timeout", "240s"],
                                      os.path.join(folder, f"{i}.log"))) for i in (1, 2)]

    def members():
        with remoting.Client(cluster.broker) as c:
            a = c.call(38, {"consumerGroup": group})
        return json.loads(a.body)["consumerIdList"] if a.code == 0 else []

    def agreed(count):
        ids = members()
        return len(ids) == count and all(queues_of(cluster.broker, group, m, topic) == queues for m, queues in averagely(ids, 10).items())
    clusters.wait_for("five members that own what AVG gives them", lambda: agreed(5), 60, every=0.2)
    java[0].kill()
    ours[0].stop()
    clusters.wait_for("three members that own what AVG gives them", lambda: agreed(3), 60, every=0.2)


@case("sdk-and-java-read-each-other", java_too=True, needs=("java-4.9.8",))
def each_other(ctx):
    """Plain, compressed, batched, delayed and transactional messages of a Java producer and of ours: a Java consumer and ours get the same, under the ids that senders were told."""  # client §14.50
    cluster, space = ctx.shared(), unique("kinds_")
    topic = space + "%Kinds"
    create_topic(cluster, topic, 4)
    config = os.path.join(ctx.folder, "kinds.toml")
    with open(config, "w") as f:
        f.write(f'namespace = "{space}"\n')
    theirs = ctx.client("java-4.9.8", "consume", cluster.namesrv, group="theirs", topic="Kinds", namespace=space, timeout=120)
    theirs.started()
    ours = subprocess.Popen([os.path.join(TESTS, "sdk_features"), "--namesrv", cluster.namesrv, "--only", "kinds", "--config", config], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, cwd=ctx.folder, env=dict(os.environ, HOME=ctx.temp("home")))
    try:
        plain = [msg.Message(topic, "java-plain", "text:plain"), msg.Message(topic, "java-large", "rep:20000:1"), msg.Message(topic, "java-late", "text:late", DELAY="1")]
        runs = [ctx.client("java-4.9.8", "produce", cluster.namesrv, group=unique("p"), messages=write_messages(ctx.folder, plain)),
                ctx.client("java-4.9.8", "produce", cluster.namesrv, group=unique("p"), messages=write_messages(ctx.folder, [msg.Message(topic, f"java-batch-{i}", f"text:b{i}") for i in range(3)]), batch=1)]
        for run in runs:
            assert run.wait(60) == 0, run.describe()
        transact = ctx.client("java-4.9.8", "transact", cluster.namesrv, group=unique("tx"), topic=topic, count=1, decide="commit", timeout=1)
        transact.wait(60)
        java_ids = {i for r in [*runs, transact] for l in r.lines if "msgId" in l for i in l["msgId"].split(",")}
        assert len(java_ids) == 7, [r.lines for r in [*runs, transact]]
        sent = {}
        while True:
            line = ours.stdout.readline().split()
            if line[:1] != ["sent"]:
                assert line == ["all"], (line, sent)
                break
            sent[line[1]] = int(line[2])
        assert len(sent) == 7, sent
        wanted = java_ids | set(sent)
        theirs.until("all of both", lambda r: wanted <= {l["msgId"] for l in r.received()}, 30)
        got = {}
        while not wanted <= set(got):
            word, ident, length = ours.stdout.readline().split()
            assert word == "got", (word, ident)
            got[ident] = int(length)
        ours.communicate(timeout=30)
    finally:
        ours.kill()
    theirs.stop()
    java = {l["msgId"]: l["length"] for l in theirs.received()}
    assert ours.returncode == 0 and set(java) == set(got) == wanted, (java, got, wanted)
    assert java == got and all(java[i] == n for i, n in sent.items()), (java, got, sent)
    assert max(n for i, n in got.items() if i in java_ids) == 20000, got
    return f"{len(wanted)} messages both ways"


@case("sdk-in-java-tools", java_too=True, needs=("java",))
def java_tools(ctx):
    """mqadmin shows progress, connection and status of our consumer, and sets its offset back: it gets its messages again."""  # client §14.51
    cluster, topic, group = ctx.shared(), unique("SdkTools_"), unique("SdkToolsGroup_")
    create_topic(cluster, topic, 2)
    with remoting.Client(cluster.broker) as c:
        for i in range(6):
            assert c.send(topic, b"m%d" % i, i % 2, {"KEYS": f"k{i}"}).code == 0
    log = os.path.join(ctx.folder, "ours.log")
    ours = ctx.keep(clusters.Process([os.path.join(clusters.BIN, "tenon"), "--json", "--namesrv", cluster.namesrv, "consume", "-t", topic, "-g", group, "--from", "first", "--timeout", "240s"], log))

    def got():
        return sum('"m' in l or topic in l for l in ours.text().splitlines())

    def tool(*args):
        return clusters.mqadmin(cluster.namesrv, *args)
    clusters.wait_for("all messages", lambda: got() >= 6, 30)
    with remoting.Client(cluster.broker) as c:
        client = json.loads(c.call(38, {"consumerGroup": group}).body)["consumerIdList"][0]

    def committed():
        with remoting.Client(cluster.broker) as c:
            return [c.call(14, {"consumerGroup": group, "topic": topic, "queueId": q}).ext.get("offset") for q in (0, 1)]
    clusters.wait_for("the offsets", lambda: committed() == ["3", "3"], 30)
    text = tool("consumerProgress", "-g", group)
    assert "Diff Total: 0" in text and len(re.findall(topic + r"\s+\S+\s+[01]\s+3\s+3\s", text)) == 2, text
    text = tool("consumerConnection", "-g", group)
    assert client in text and re.search(topic + r"\s+\*", text) and "MessageModel: CLUSTERING" in text, text
    text = tool("consumerStatus", "-g", group, "-i", client)
    assert all(re.search(p, text) for p in ("#Consumer Properties#", "Topic: " + topic, "#Consumer Offset#", topic + r"\s+\S+\s+[01]\s+3")), text
    text = tool("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    assert re.search(r"[01]\s+0", text), text
    clusters.wait_for("all messages again", lambda: got() >= 12, 30)


@case("sdk-in-java-namespace", java_too=True, needs=("java-4.9.8",))
def java_namespace(ctx):
    """A Java consumer and ours in one namespace, topic and group: each message reaches one of them, whoever sent it; a stranger to the namespace gets nothing."""
    cluster, space = ctx.shared(), unique("space_").replace(".", "_")
    create_topic(cluster, space + "%Shared", 4)
    create_topic(cluster, "Shared", 4)
    config = os.path.join(ctx.folder, "namespace.toml")
    with open(config, "w") as f:
        f.write(f'namespace = "{space}"\n')
    theirs = ctx.client("java-4.9.8", "consume", cluster.namesrv, group="both", topic="Shared", namespace=space, timeout=120)
    theirs.started()
    ours = subprocess.Popen([os.path.join(TESTS, "sdk_features"), "--namesrv", cluster.namesrv, "--only", "beside_java", "--config", config], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ctx.folder, env=dict(os.environ, HOME=ctx.temp("home")))
    try:
        sent = [ours.stdout.readline().split()[1] for _ in range(4)]

        def members():
            with remoting.Client(cluster.broker) as c:
                a = c.call(38, {"consumerGroup": space + "%both"})
            ids = json.loads(a.body)["consumerIdList"] if a.code == 0 else []
            return ids if len(ids) == 2 and all(queues_of(cluster.broker, space + "%both", m, space + "%Shared") == q for m, q in averagely(ids, 4).items()) else None
        clusters.wait_for("two members that share the queues", members, 30, every=0.1)
        producer = ctx.client("java-4.9.8", "produce", cluster.namesrv, group="theirs", topic="Shared", namespace=space, count=8)
        assert producer.wait(60) == 0, producer.describe()
        sent += [l["msgId"] for l in producer.acknowledged()]
        assert len(sent) == 12 and all(l["topic"] == "Shared" for l in producer.acknowledged()), sent

        def offsets():
            with remoting.Client(cluster.broker) as c:
                return sum(len(c.read_queue(space + "%Shared", q)) for q in range(4)), sum(len(c.read_queue("Shared", q)) for q in range(4))
        assert offsets() == (12, 0), offsets()
        theirs.until("its share", lambda r: len(r.received()) >= 4, 30)
        out, _ = ours.communicate(timeout=30)
    finally:
        ours.kill()
    assert ours.returncode == 0, out
    theirs.stop()
    mine, java = re.findall(r"^got (\w+)$", out, re.M), [l["msgId"] for l in theirs.received()]
    assert all(l["topic"] == "Shared" for l in theirs.received()), theirs.received()
    assert sorted(set(mine + java)) == sorted(sent), (mine, java, sent)
    assert len(mine) >= 4, (mine, java)
    return f"{len(mine)} to ours, {len(java)} to theirs"


@case("sdk-hash-like-java", java_too=True, needs=("java-4.9.8",))
def hash_like_java(ctx):
    """Ordered messages of a Java producer and of ours with the same key go to the same queue."""
    cluster, topic = ctx.shared(), unique("SdkHash_")
    create_topic(cluster, topic, 7)
    keys = ["order-1", "order-2", "red", "polygenelubricants", "Aa", "BB", "标签", "😀", "x" * 50]
    run = ctx.client("java-4.9.8", "hash", cluster.namesrv, program="More", group=unique("hasher_"), topic=topic, key=keys)
    assert run.wait(60) == 0, run.describe()
    theirs = {l["key"]: l["queueId"] for l in run.lines if "key" in l}
    assert set(theirs) == set(keys), theirs
    for key in keys:
        done = subprocess.run([os.path.join(clusters.BIN, "tenon"), "--namesrv", cluster.namesrv, "send", "-t", topic, "-b", "by key", "-k", "ours", "--sharding-key", key],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
        assert done.returncode == 0, done.stdout
    with remoting.Client(cluster.broker) as c:
        stored = {q: len([r for r in c.read_queue(topic, q) if r.props.get("KEYS") == "ours"]) for q in range(7)}
    expected = {q: sum(1 for k in keys if theirs[k] == q) for q in range(7)}
    assert stored == expected, (stored, expected, theirs)
    assert len(set(theirs.values())) > 2, theirs


@case("sdk-on-java-broker", java_too=True, needs=("java",))
def sdk_java(ctx):
    """The same program on the Java broker 4.9.7."""  # client §14.52
    return round_trip(ctx, ctx.keep(clusters.Java(ctx.temp("java")).start()))


@case("sdk-on-java-5", java_too=True, needs=("java",))
def sdk_java_5(ctx):
    """The same program on the Java broker 5.3.3."""  # client §14.52
    return round_trip(ctx, ctx.keep(clusters.Java(ctx.temp("java"), version="5.3.3").start()))


ACL = """globalWhiteRemoteAddresses:
accounts:
- accessKey: SdkAdmin
  secretKey: sdk-secret-1
  admin: true
- accessKey: SdkUser
  secretKey: sdk-secret-2
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
"""


@case("sdk-acl-on-java-broker", java_too=True, needs=("java",))
def sdk_acl(ctx):
    """Signed requests against a Java broker with aclEnable=true: an account that may, one that may not, a wrong secret, none."""
    folder = ctx.temp("java")
    os.makedirs(os.path.join(folder, "conf"), exist_ok=True)
    with open(os.path.join(folder, "conf", "plain_acl.yml"), "w") as f:
        f.write(ACL)
    cluster = ctx.keep(clusters.Java(folder, settings=["aclEnable=true"]).start())
    key = os.path.join(folder, "key.yml")
    with open(key, "w") as f:
        f.write("accessKey: SdkAdmin\nsecretKey: sdk-secret-1\n")
    for part in ("pull_shared", "subscribe", "requests"):
        round_trip(ctx, cluster, "sdk_features", "--only", part, TENON_CREDENTIALS_FILE=key)
    for name, env in (("an account without the right", dict(TENON_ACCESS_KEY="SdkUser", TENON_SECRET_KEY="sdk-secret-2")),
                      ("a wrong secret", dict(TENON_ACCESS_KEY="SdkAdmin", TENON_SECRET_KEY="sdk-secret-2")),
                      ("no account", {})):
        done = run_program(ctx, cluster, "sdk_features", "--only", "subscribe", **env)
        assert done.returncode == 1 and "AclException" in done.stdout, f"{name}: {done.stdout[-900:]}"
    return "3 parts with an account, 3 refusals"


def certificates(folder):
    """A CA, a certificate for 127.0.0.1 and one for a client, by openssl; a second CA that nobody trusts."""
    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for ca in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={ca}", "-keyout", ca + ".key", "-out", ca + ".pem")
    with open(os.path.join(folder, "san"), "w") as f:
        f.write("subjectAltName=IP:127.0.0.1")
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=" + name, "-keyout", name + ".raw", "-out", name + ".csr")
        openssl("pkcs8", "-topk8", "-nocrypt", "-in", name + ".raw", "-out", name + ".key")
        openssl("x509", "-req", "-days", "2", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "san", "-in", name + ".csr", "-out", name + ".pem")


@case("sdk-tls-on-java-broker", java_too=True, needs=("java",))
def sdk_tls(ctx):
    """TLS with both certificates verified against Java servers that require one of the client; refused without, and with another CA."""
    folder = ctx.temp("tls")
    certificates(folder)
    properties = os.path.join(folder, "tls.properties")
    with open(properties, "w") as f:
        f.write("tls.test.mode.enable=false\ntls.server.need.client.auth=require\ntls.server.authClient=true\n"
                f"tls.server.keyPath={folder}/server.key\ntls.server.certPath={folder}/server.pem\ntls.server.trustCertPath={folder}/ca.pem\n")
    cluster = clusters.Java(ctx.temp("java"))
    cluster.env["JAVA_TOOL_OPTIONS"] = "-Dtls.config.file=" + properties  # of both servers
    ctx.keep(cluster.start())

    def config(name, text):
        path = os.path.join(folder, name + ".toml")
        with open(path, "w") as f:
            f.write("api_timeout_ms = 3000\n[tls]\nenabled = true\n" + text)
        return path
    mine = f'certificate_file = "{folder}/client.pem"\nkey_file = "{folder}/client.key"\n'
    good = config("good", mine + f'ca_file = "{folder}/ca.pem"\n')
    for part in ("pull_shared", "subscribe"):
        round_trip(ctx, cluster, "sdk_features", "--only", part, "--config", good)
    for name, text, why in (("no certificate", f'ca_file = "{folder}/ca.pem"\n', ""),
                            ("another CA", mine + f'ca_file = "{folder}/other.pem"\n', "certificate verify failed"),
                            ("another name", mine + f'ca_file = "{folder}/ca.pem"\nserver_name = "broker.example"\n', "certificate verify failed")):
        done = run_program(ctx, cluster, "sdk_features", "--only", "subscribe", "--config", config("bad", text))
        assert done.returncode == 1 and why in done.stdout, f"{name}: {done.stdout[-900:]}"
    return "2 parts with certificates, 3 refusals"
