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


def run_program(ctx, cluster, program, *more, **env):
    return subprocess.run([os.path.join(TESTS, program), "--namesrv", cluster.namesrv, "--cluster", "DefaultCluster", *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=480, env=dict(os.environ, HOME=ctx.temp("home"), **env), cwd=ctx.folder)


def round_trip(ctx, cluster, program="sdk_roundtrip", *more, **env):
    clusters.wait_for("registration of the broker", lambda: registered(cluster), 30)
    done = run_program(ctx, cluster, program, *more, **env)
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
