"""Our name server with Java brokers, our broker with the Java name server."""
import json
import re

from lib import cluster as clusters
from lib import messages as msg
from lib import remoting
from lib.runner import case

from .clients import create_topic, raw_send, unique, wait_routed


class Pair:
    """What the helpers need to know of a cluster."""

    def __init__(self, namesrv, broker):
        self.namesrv, self.broker = namesrv, broker


def there_and_back(ctx, cluster):
    """A Java producer makes a topic by sending; a Java consumer gets all of it."""
    topic = unique("Mixed_")
    messages = msg.full_set(topic, "mixed")[:14]
    ctx.produce("java-4.9.8", cluster.namesrv, messages)
    wait_routed(cluster, topic)
    run = ctx.client("java-4.9.8", "consume", cluster.namesrv, group=unique("MixedGroup_"), topic=topic, expect=len(messages), timeout=40, quiet=1)
    run.wait(60)
    bad = msg.compare(messages, run.received())
    assert not bad, (bad[:5], run.describe())


@case("our-broker-java-name-server", needs=("java-4.9.8",))
def our_broker(ctx):
    """Our broker registers with the Java name server, and a Java client works through it; it leaves when it stops."""
    ns = ctx.keep(clusters.JavaNameServer(ctx.temp("ns")))
    folder, port = ctx.temp("broker"), clusters.free_port((0, -2, 1))
    broker = clusters.Program(clusters.broker_argv(folder, port, ns.namesrv), folder, f"127.0.0.1:{port}")
    ctx.keep(broker)
    cluster = Pair(ns.namesrv, f"127.0.0.1:{port}")
    wait_routed(cluster, "TBW102")
    there_and_back(ctx, cluster)
    broker.stop()

    def gone():
        with remoting.Client(ns.namesrv) as c:
            return c.route("TBW102") is None
    clusters.wait_for("the name server to forget the broker", gone, 10)


@case("java-broker-our-name-server", needs=("java-4.9.8",))
def java_broker(ctx):
    """Java brokers register with our name server beside our own; clients and mqadmin work through it."""
    ours = ctx.fresh()
    for version in ("4.9.7", "5.3.3"):
        java = ctx.keep(clusters.Java(ctx.temp("java"), version=version, namesrv=ours.namesrv, settings=[f"brokerName=java-{version}", "brokerClusterName=JavaCluster"]).start())
        topic = unique("OnJava_")
        create_topic(Pair(ours.namesrv, java.broker), topic)
        raw_send(java, [msg.Message(topic, f"j{i}", f"text:{i}") for i in range(8)])
        run = ctx.client("java-4.9.8", "consume", ours.namesrv, group=unique("OnJavaGroup_"), topic=topic, expect=8, timeout=40, quiet=1)
        run.wait(60)
        ctx.sub(version, [] if len(run.received()) == 8 else [run.describe()])
        with remoting.Client(ours.namesrv) as c:
            text = c.call(remoting.CLUSTER_INFO).body.decode()
            info = json.loads(re.sub(r"([{,])(\d+):", r'\1"\2":', text))  # old dialect: integer keys without quotes
        names = {n for group in info["clusterAddrTable"].values() for n in group}
        ctx.sub(f"{version}-cluster-info", [] if f"java-{version}" in names and info["brokerAddrTable"][f"java-{version}"]["brokerAddrs"]["0"] == java.broker else [json.dumps(info)])
        java.stop()

        def gone():
            with remoting.Client(ours.namesrv) as c:
                return c.route(topic) is None
        clusters.wait_for("our name server to forget the Java broker", gone, 15)


@case("name-servers-alone", needs=("java-4.9.8",))
def separate(ctx):
    """Our broker and our name server as separate programs; a broker registers again with a name server that was restarted."""
    folder, ns_port, port = ctx.temp("alone"), clusters.free_port(), clusters.free_port((0, -2, 1))
    cluster = Pair(f"127.0.0.1:{ns_port}", f"127.0.0.1:{port}")
    ns = clusters.Program(clusters.namesrv_argv(folder, ns_port), folder, cluster.namesrv)
    broker = ctx.keep(clusters.Program(clusters.broker_argv(folder, port, cluster.namesrv), folder, cluster.broker))
    try:
        wait_routed(cluster, "TBW102")
        there_and_back(ctx, cluster)
        ns.stop()
        ns = clusters.Program(clusters.namesrv_argv(folder, ns_port), folder, cluster.namesrv)

        def again():
            with remoting.Client(cluster.namesrv) as c:
                return c.route("TBW102")
        clusters.wait_for("the broker to register again", again, 45)
    finally:
        ns.stop()
    assert broker.process.process.poll() is None
