"""Subscriptions by SQL92 expressions, by the clients that have them (not Node)."""
import os

from lib import cluster as clusters
from lib import messages as msg
from lib.runner import case

from .clients import available, create_topic, raw_send, unique, wait_routed

WITH_SQL = ("java-4.9.8", "java-5.3.3", "go")


def sql_cluster(ctx):
    """A broker that allows such expressions."""
    if ctx.runner.against == "java":
        return ctx.fresh(settings=["enablePropertyFilter=true"])
    return ctx.fresh(config="[topics]\nproperty_filter = true\n")


def numbered(topic, count):
    return [msg.Message(topic, f"n{i}", f"text:{i}", tags="TagA" if i % 3 == 0 else "TagB", num=str(i), color=("red", "green", "蓝")[i % 3]) for i in range(count)]


@case("sql-filter", java_too=True, needs=("java-4.9.8",))
def sql_filter(ctx):
    """Two groups with different expressions and one with a tag on one topic; each client gets exactly what its expression means, as it comes and what was there."""
    cluster, topic = sql_cluster(ctx), unique("Sql_")
    before, after = numbered(topic, 60)[:40], numbered(topic, 60)[40:]
    raw_send(cluster, before)
    wait_routed(cluster, topic)
    wanted = {"num BETWEEN 10 AND 30 AND color = '蓝' OR num > 50": lambda m: 10 <= int(m.props["num"]) <= 30 and m.props["color"] == "蓝" or int(m.props["num"]) > 50,
              "TAGS IN ('TagA') AND missing IS NULL AND num <> 3": lambda m: m.tags == "TagA" and m.props["num"] != "3"}
    runs = []
    for n in available(ctx, WITH_SQL):
        for i, (text, matches) in enumerate(wanted.items()):
            expected = [m for m in before + after if matches(m)]
            runs.append((f"{n}-{i}", expected, ctx.client(n, "consume", cluster.namesrv, group=unique("SqlGroup_"), topic=topic, sql=text, expect=len(expected), timeout=60, quiet=1)))
    expected = [m for m in before + after if m.tags == "TagB"]
    runs.append(("by-tag", expected, ctx.client("java-4.9.8", "consume", cluster.namesrv, group=unique("TagGroup_"), topic=topic, tag="TagB", expect=len(expected), timeout=60, quiet=1)))
    for _, _, run in runs:
        run.started(60)
    raw_send(cluster, after)
    for name, expected, run in runs:
        run.wait(90)
        bad = msg.compare(expected, run.received())
        ctx.sub(name, bad + ([run.describe()] if bad else []))


@case("sql-wrong", java_too=True, needs=("java-4.9.8", "java-5.3.3"))
def sql_wrong(ctx):
    """A wrong expression fails at the start of the Java clients, with code 23 and the parser's words."""
    cluster, topic = sql_cluster(ctx), unique("SqlWrong_")
    create_topic(cluster, topic)
    for text, words in (("num > '3'", "Value ''3'' cannot be compared"), ("num >", "Encountered"), ("num ! 3", "Lexical error at line 1, column 5")):
        for n in ("java-4.9.8", "java-5.3.3"):
            run = ctx.client(n, "consume", cluster.namesrv, group=unique("SqlWrongGroup_"), topic=topic, sql=text, timeout=20)
            code = run.wait(60)
            said = run.describe()
            ctx.sub(f"{n}: {text}", [] if code != 0 and words in said and "23" in said else [f"exit {code}; {said}"])


@case("sql-off", java_too=True, needs=("java-4.9.8",))
def sql_off(ctx):
    """While the broker does not allow expressions the client is told so at its start."""
    cluster, topic = ctx.shared(), unique("SqlOff_")
    create_topic(cluster, topic)
    run = ctx.client("java-4.9.8", "consume", cluster.namesrv, group=unique("SqlOffGroup_"), topic=topic, sql="num > 3", timeout=20)
    code = run.wait(60)
    assert code != 0 and "The broker does not support consumer to filter message by SQL92" in run.describe(), (code, run.describe())


@case("sql-sparse", java_too=True, needs=("java-4.9.8",))
def sql_sparse(ctx):
    """2500 messages that nobody wants and one at their end that two clients want, in one queue: pulls go on over what was looked at in vain."""
    cluster, topic = sql_cluster(ctx), unique("SqlSparse_")
    create_topic(cluster, topic, queues=1)
    messages = numbered(topic, 2501)
    ctx.produce("java-4.9.8", cluster.namesrv, messages, seconds=120)
    runs = {n: ctx.client(n, "consume", cluster.namesrv, group=unique("SqlSparseGroup_"), topic=topic, sql="num = 2500", expect=1, timeout=60, quiet=1) for n in available(ctx, ("java-4.9.8", "go"))}
    for n, run in runs.items():
        run.wait(90)
        bad = msg.compare(messages[-1:], run.received())
        ctx.sub(n, bad + ([run.describe()] if bad else []))


@case("sql-bitmaps", needs=("java", "java-4.9.8"))
def sql_bitmaps(ctx):
    """Bit maps of our broker: its own pulls use them, Java 4.9.7 opens the folder and serves the same group by them, goes on, and we open that."""
    ours = "[topics]\nproperty_filter = true\ncalc_filter_bitmap = true\n[storage.options]\nqueue_ext = true\n"
    topic, group, text = unique("SqlBits_"), unique("SqlBitsGroup_"), "num BETWEEN 20 AND 150 AND color = 'red'"
    writer = ctx.fresh(config=ours)
    create_topic(writer, topic)
    messages = numbered(topic, 240)

    def wanted(upto):
        return [m for m in messages[:upto] if 20 <= int(m.props["num"]) <= 150 and m.props["color"] == "red"]

    def consumes(cluster, upto, what):
        expected = wanted(upto)
        run = ctx.client("java-4.9.8", "consume", cluster.namesrv, group=group, topic=topic, sql=text, expect=len(expected), timeout=60, quiet=1)
        run.wait(90)
        bad = msg.compare(expected, run.received())
        ctx.sub(what, bad + ([run.describe()] if bad else []))

    first = ctx.client("java-4.9.8", "consume", writer.namesrv, group=group, topic=topic, sql=text, expect=len(wanted(80)), timeout=60, quiet=1)
    first.started(60)
    known = os.path.join(writer.store, "config", "consumerFilter.json")
    clusters.wait_for("the expression in the file", lambda: os.path.exists(known) and group in open(known).read(), 40)
    raw_send(writer, messages[:80])
    first.wait(90)
    ctx.sub("as they come", msg.compare(wanted(80), first.received()))
    writer.stop()
    folder = ctx.temp("java")
    clusters.copy_store(writer.store, os.path.join(folder, "store"))

    def forget_offsets(store):  # the group starts from the first message again, its expression stays
        for name in ("consumerOffset.json", "consumerOffset.json.bak"):
            if os.path.exists(os.path.join(store, "config", name)):
                os.remove(os.path.join(store, "config", name))

    forget_offsets(os.path.join(folder, "store"))
    java = ctx.keep(clusters.Java(folder, settings=["enablePropertyFilter=true", "enableCalcFilterBitMap=true", "enableConsumeQueueExt=true"]).start())
    wait_routed(java, topic)
    consumes(java, 80, "by Java")
    raw_send(java, messages[80:160])
    consumes_more = ctx.client("java-4.9.8", "consume", java.namesrv, group=group, topic=topic, sql=text, expect=1, timeout=60, quiet=2)
    consumes_more.wait(90)
    java.stop()
    forget_offsets(java.store)
    back = clusters.Tenon(ctx.temp("back"), config=ours)
    os.rename(java.store, back.store)
    ctx.keep(back.start())
    raw_send(back, messages[160:])
    consumes(back, 240, "back here")
    for q in range(4):
        path = os.path.join(back.store, "consumequeue_ext", topic, str(q), "0" * 20)
        assert os.path.exists(path), path
