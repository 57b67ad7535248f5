"""The official admin tool against the cluster."""
import re

from lib import messages as msg
from lib import remoting
from lib.cluster import mqadmin, wait_for
from lib.runner import case

from .clients import raw_send, unique, wait_routed


@case("mqadmin", java_too=True, needs=("java", "java-4.9.8"))
def admin_tool(ctx):
    """mqadmin 4.9.7: clusterList, updateTopic, topicList, topicRoute, topicStatus, consumerProgress, queryMsgById, queryMsgByKey and friends."""
    cluster = ctx.shared()
    topic, group = unique("Admin_"), unique("AdminGroup_")

    def tool(*args):
        return mqadmin(cluster.namesrv, *args)

    def check(name, output, *patterns):
        ctx.sub(name, [f"no {p!r} in: {output[-700:]}" for p in patterns if not re.search(p, output, re.M)])

    check("clusterList", tool("clusterList"), r"DefaultCluster\s+\S+\s+0\s+" + re.escape(cluster.broker) + r"\s+V4_9_")
    check("updateTopic-cluster", tool("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "6", "-w", "6"), r"create topic to " + re.escape(cluster.broker) + r" success", r"readQueueNums=6")
    other = topic + "_b"
    check("updateTopic-broker", tool("updateTopic", "-b", cluster.broker, "-t", other, "-r", "2", "-w", "2"), r"create topic to " + re.escape(cluster.broker) + r" success")
    wait_routed(cluster, other)
    check("topicList", tool("topicList"), "^" + topic + "$", "^" + other + "$")
    check("topicRoute", tool("topicRoute", "-t", topic), r'"?readQueueNums"?: ?6', re.escape(cluster.broker))
    messages = [msg.Message(topic, f"admin-{i}", f"text:{i}", tags="TagA", keys=f"admin-key-{i}") for i in range(12)]
    raw_send(cluster, messages)
    with remoting.Client(cluster.broker) as c:
        record = c.read_queue(topic, 1)[0]
        wait_for("the key index", lambda: c.query(topic, "admin-key-5")[0] == 0)
    check("topicStatus", tool("topicStatus", "-t", topic), r"\S+\s+0\s+0\s+3\s+20\d\d-", r"\S+\s+5\s+0\s+0")
    check("queryMsgById", tool("queryMsgById", "-i", record.msg_id), r"OffsetID:\s+" + record.msg_id, r"Topic:\s+" + topic, r"Tags:\s+\[TagA\]", r"Queue ID:\s+1")
    check("queryMsgByKey", tool("queryMsgByKey", "-t", topic, "-k", "admin-key-5"), messages[5].raw_properties()["UNIQ_KEY"] + r"\s+1\s+1")
    check("queryMsgByUniqueKey", tool("queryMsgByUniqueKey", "-t", topic, "-i", messages[5].raw_properties()["UNIQ_KEY"]), r"Topic:\s+" + topic, r"Queue Offset:\s+1")
    # A consumer that is there and has consumed everything.
    run = ctx.client("java-4.9.8", "consume", cluster.namesrv, group=group, topic=topic, timeout=120)
    run.until("all messages", lambda r: len(r.received()) >= len(messages), 60)

    def committed():
        with remoting.Client(cluster.broker) as c:
            answers = [c.call(remoting.QUERY_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": q}) for q in range(4)]
            return all(a.code == 0 and a.ext["offset"] == "3" for a in answers)
    wait_for("the consumer's offsets", committed, 40)
    check("consumerProgress", tool("consumerProgress", "-g", group), topic + r"\s+\S+\s+0\s+3\s+3\s", r"Diff Total: 0")
    check("consumerConnection", tool("consumerConnection", "-g", group), r"ClientId", topic)
    run.kill()
