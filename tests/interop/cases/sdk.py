"""Our client library and our command-line tool, against Tenon and against the Java broker."""
import os
import re
import subprocess

from lib import cluster as clusters
from lib import remoting
from lib.runner import case

TESTS = os.path.join(os.path.dirname(clusters.BIN), "tests")


def registered(cluster):
    with remoting.Client(cluster.namesrv) as c:
        return b"DefaultCluster" in c.call(remoting.CLUSTER_INFO).body


def round_trip(ctx, cluster, program="sdk_roundtrip"):
    clusters.wait_for("registration of the broker", lambda: registered(cluster), 30)
    done = subprocess.run([os.path.join(TESTS, program), "--namesrv", cluster.namesrv, "--cluster", "DefaultCluster"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=480, env=dict(os.environ, HOME=ctx.temp("home")), cwd=ctx.folder)
    assert done.returncode == 0, "; ".join(l for l in done.stdout.splitlines() if re.search("FAILED|FAIL|line", l))[:900] or done.stdout[-900:]
    return f"{len(done.stdout.splitlines()) - 1} parts"


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


@case("sdk-on-java-broker", java_too=True, needs=("java",))
def sdk_java(ctx):
    """The same program on the Java broker 4.9.7."""
    return round_trip(ctx, ctx.keep(clusters.Java(ctx.temp("java")).start()))
