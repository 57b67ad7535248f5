"""What must hold when the mixed long run is over. Each function returns complaints."""
import collections

from link import Link, remoting
from roles import QUEUES, RETRY_GROUP, MAX_RETRIES

TIMER_EARLY_MS = 100


def first(items, n=3):
    return sorted(items)[:n]


def seen_by_id(consumer):
    out = collections.defaultdict(list)
    for entry in consumer["seen"]:
        out[int(entry[3])].append(entry)
    return out


def no_loss(name, acknowledged, seen, wanted=lambda n, note: True, unwanted_is_wrong=True):
    """Every acknowledged message that is wanted was consumed; none that is not."""
    bad = []
    lost = [n for n, (_, _, note, _) in acknowledged.items() if wanted(n, note) and n not in seen]
    if lost:
        bad.append(f"{name}: {len(lost)} of {len(acknowledged)} acknowledged messages were never consumed: {first(lost)}")
    wrong = [n for n in seen if n in acknowledged and not wanted(n, acknowledged[n][2])]
    if wrong and unwanted_is_wrong:
        bad.append(f"{name}: {len(wrong)} messages were consumed that should not be: {first(wrong)}")
    return bad


def once(name, seen):
    twice = [n for n, entries in seen.items() if len(entries) > 1]
    return [f"{name}: {len(twice)} messages consumed more than once: {[(n, seen[n][:2]) for n in first(twice, 2)]}"] if twice else []


def in_place(name, acknowledged, seen):
    """Where a message was acknowledged is where it was found."""
    wrong = [n for n, (queue, offset, _, _) in acknowledged.items() if n in seen and (queue, offset) not in [(e[1], e[2]) for e in seen[n]]]
    return [f"{name}: {len(wrong)} messages are not where they were acknowledged: {[(n, acknowledged[n][:2], seen[n][0][1:3]) for n in first(wrong)]}"] if wrong else []


def gapless(name, consumer):
    """Offsets of each queue are 0, 1, 2 … in the order of consumption."""
    at, bad = collections.defaultdict(int), []
    for topic, queue, offset, *_ in consumer["seen"]:
        if offset != at[topic, queue]:
            bad.append(f"{name}: {topic} queue {queue}: offset {offset} after {at[topic, queue] - 1}")
        at[topic, queue] = offset + 1
    return bad[:3]


def not_early(name, acknowledged, seen, tolerance=0):
    early = [(n, e[5] - at - note) for n, (_, _, note, at) in acknowledged.items() for e in seen.get(n, []) if e[5] < at + note - tolerance]
    return [f"{name}: {len(early)} messages came early, e.g. (message, ms) {first(early)}"] if early else []


def ordered(name, consumer):
    last, bad = {}, []
    for entry in consumer["seen"]:
        key, number = entry[6]
        if key in last and int(number) <= last[key]:
            bad.append(f"{name}: key {key}: {number} after {last[key]}")
        last[key] = int(number)
    return bad[:3]


def transactions(producer, consumer):
    seen, bad = seen_by_id(consumer), []
    bad += no_loss("transactions", producer["acknowledged"], seen, lambda n, way: "commit" in way)
    bad += once("transactions", seen)
    asked = [n for n, (_, _, way, _) in producer["acknowledged"].items() if way.startswith(("ask", "silent"))]
    never = [n for n in asked if n not in producer["asked"]]
    if never:
        bad.append(f"transactions: {len(never)} of {len(asked)} undecided ones were never asked about: {first(never)}")
    return bad


def retries(producer, consumer, dead):
    """How often each came back, and that the hopeless ones are dead letters."""
    seen, bad = seen_by_id(consumer), []
    bad += no_loss("retry", producer["acknowledged"], seen)
    for n, (_, _, fail, _) in producer["acknowledged"].items():
        counts = {e[6][1] for e in seen.get(n, [])}
        wanted = set(range(min(fail, MAX_RETRIES) + 1))
        if counts != wanted:
            bad.append(f"retry: message {n} with {fail} refusals was consumed with reconsume times {sorted(counts)}, not {sorted(wanted)}")
        if (fail > MAX_RETRIES) != (n in dead):
            bad.append(f"retry: message {n} with {fail} refusals is {'a' if n in dead else 'no'} dead letter")
    return bad[:5]


def replies(requester, replier):
    seen, bad = seen_by_id(replier), []
    bad += no_loss("request-reply", requester["acknowledged"], seen)
    lost = replier["replied"] - requester["replies"]
    if lost:
        bad.append(f"request-reply: {len(lost)} of {len(replier['replied'])} acknowledged replies did not reach who asked: {first(lost)}")
    if len(requester["acknowledged"]) > 200 and len(requester["replies"]) < len(requester["acknowledged"]) // 2:
        bad.append(f"request-reply: only {len(requester['replies'])} replies to {len(requester['acknowledged'])} requests")
    return bad


def read_all(broker, topic, queues):
    """Every message of a topic, read raw."""
    with remoting.Client(broker) as c:
        return [r for q in range(queues) for r in c.read_queue(topic, q)]


def dead_letters(broker):
    with remoting.Client(broker) as c:
        a = c.call(remoting.MAX_OFFSET, {"topic": "%DLQ%" + RETRY_GROUP, "queueId": 0})
        return [int(r.props["id"]) for r in c.read_queue("%DLQ%" + RETRY_GROUP, 0)] if a.code == 0 and int(a.ext["offset"]) else []


def pending_delayed(broker, level):
    """Identities in the queue of a delay level, from the beginning: those not due are still there."""
    with remoting.Client(broker) as c:
        return {int(r.props["id"]) for r in c.read_queue("SCHEDULE_TOPIC_XXXX", level - 1) if r.props.get("REAL_TOPIC") == "SoakDelay"}
