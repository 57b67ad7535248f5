// What the Java client can do beyond sending and push consuming: request and reply, pull consumers,
// broadcasting, dead letters, message trace. Same output as Scenario: JSON lines.
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

public class More {
    private static Map<String, List<String>> opt = new HashMap<>();

    private static synchronized void line(String text) {
        System.out.println(text);
        System.out.flush();
    }

    private static String quote(String s) { return s == null ? "null" : "\"" + s.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ").replace("\u0001", "|").replace("\u0002", ";") + "\""; }
    private static String one(String name, String otherwise) { return opt.containsKey(name) ? opt.get(name).get(0) : otherwise; }
    private static int number(String name, int otherwise) { return Integer.parseInt(one(name, "" + otherwise)); }
    private static String text(MessageExt m) { return new String(m.getBody(), StandardCharsets.UTF_8); }

    private static DefaultMQProducer producer(boolean trace) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer(one("group", ""), (RPCHook) null, trace, null);
        p.setNamesrvAddr(one("namesrv", ""));
        p.setSendMsgTimeout(10000);
        p.setMqClientApiTimeout(15000);
        p.setInstanceName("more-" + System.nanoTime());
        p.start();
        return p;
    }

    private static DefaultMQPushConsumer push() throws Exception {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(one("group", ""));
        c.setNamesrvAddr(one("namesrv", ""));
        c.setMqClientApiTimeout(15000);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setInstanceName("more-" + System.nanoTime());
        for (String t : opt.get("topic")) c.subscribe(t, "*");
        return c;
    }

    private static void got(MessageExt m) {
        line("{\"topic\":" + quote(m.getTopic()) + ",\"text\":" + quote(text(m)) + ",\"queueId\":" + m.getQueueId() + ",\"queueOffset\":" + m.getQueueOffset()
            + ",\"reconsumeTimes\":" + m.getReconsumeTimes() + ",\"originId\":" + quote(m.getProperty("ORIGIN_MESSAGE_ID")) + ",\"retryTopic\":" + quote(m.getProperty("RETRY_TOPIC")) + "}");
    }

    private static void untilStopped(Runnable close) throws Exception {
        CountDownLatch stop = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { close.run(); stop.countDown(); }));
        line("{\"event\":\"started\"}");
        stop.await(number("timeout", 120), TimeUnit.SECONDS);
    }

    /** Answers each request with its text in capitals. */
    private static void reply() throws Exception {
        DefaultMQProducer p = producer(false);
        opt.put("group", List.of(one("group", "") + "_consumer"));
        DefaultMQPushConsumer c = push();
        c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> {
            for (MessageExt m : ms) {
                try {
                    SendResult r = p.send(MessageUtil.createReplyMessage(m, text(m).toUpperCase().getBytes(StandardCharsets.UTF_8)), 5000);
                    line("{\"replied\":" + quote(text(m)) + ",\"status\":" + quote(r.getSendStatus().name()) + "}");
                } catch (Exception e) {
                    line("{\"replied\":" + quote(text(m)) + ",\"failure\":" + quote(e.toString()) + "}");
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        untilStopped(() -> { c.shutdown(); p.shutdown(); });
    }

    private static void request() throws Exception {
        DefaultMQProducer p = producer(false);
        for (int i = 0; i < number("count", 5); i++) {
            Message m = new Message(one("topic", ""), "TagR", ("request " + i).getBytes(StandardCharsets.UTF_8));
            long begin = System.nanoTime();
            try {
                Message r = p.request(m, 10000);
                line("{\"reply\":" + quote(new String(r.getBody(), StandardCharsets.UTF_8)) + ",\"ms\":" + (System.nanoTime() - begin) / 1000000 + "}");
            } catch (Exception e) {
                line("{\"failure\":" + quote(e.toString()) + "}");
            }
        }
        p.shutdown();
    }

    /** The old pull consumer: reads every queue to its end, blocking at the end once. */
    private static void pull() throws Exception {
        DefaultMQPullConsumer c = new DefaultMQPullConsumer(one("group", ""));
        c.setNamesrvAddr(one("namesrv", ""));
        c.setMqClientApiTimeout(15000);
        c.start();
        Set<MessageQueue> queues = c.fetchSubscribeMessageQueues(one("topic", ""));
        for (MessageQueue q : queues) {
            long offset = c.minOffset(q);
            for (;;) {
                PullResult r = c.pull(q, one("tag", "*"), offset, 32);
                offset = r.getNextBeginOffset();
                if (r.getPullStatus() == PullStatus.FOUND) for (MessageExt m : r.getMsgFoundList()) got(m);
                else if (r.getPullStatus() != PullStatus.NO_MATCHED_MSG) break;
            }
            c.updateConsumeOffset(q, offset);
            line("{\"queue\":" + q.getQueueId() + ",\"next\":" + offset + ",\"max\":" + c.maxOffset(q) + "}");
        }
        MessageQueue first = queues.iterator().next();
        long begin = System.nanoTime();
        PullResult r = c.pullBlockIfNotFound(first, "*", c.maxOffset(first), 32);
        line("{\"blocked\":" + quote(r.getPullStatus().name()) + ",\"ms\":" + (System.nanoTime() - begin) / 1000000 + "}");
        c.getOffsetStore().persistAll(queues);
        c.shutdown();
    }

    private static void lite() throws Exception {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(one("group", ""));
        c.setNamesrvAddr(one("namesrv", ""));
        c.setMqClientApiTimeout(15000);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.subscribe(one("topic", ""), one("tag", "*"));
        c.start();
        line("{\"event\":\"started\"}");
        long end = System.currentTimeMillis() + number("timeout", 60) * 1000L;
        int n = 0;
        while (n < number("expect", 1) && System.currentTimeMillis() < end) {
            for (MessageExt m : c.poll(500)) { got(m); n++; }
        }
        c.commitSync();
        // Back to the beginning of one queue: it comes again.
        Collection<MessageQueue> queues = c.fetchMessageQueues(one("topic", ""));
        line("{\"queues\":" + queues.size() + "}");
        c.shutdown();
    }

    /** The enum moved to another package in 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void broadcasting(DefaultMQPushConsumer c) throws Exception {
        for (java.lang.reflect.Method m : c.getClass().getMethods()) {
            if (m.getName().equals("setMessageModel")) m.invoke(c, Enum.valueOf((Class) m.getParameterTypes()[0], "BROADCASTING"));
        }
    }

    private static void broadcast() throws Exception {
        DefaultMQPushConsumer c = push();
        broadcasting(c);
        c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> { for (MessageExt m : ms) got(m); return ConsumeConcurrentlyStatus.CONSUME_SUCCESS; });
        c.start();
        untilStopped(c::shutdown);
    }

    /** Refuses everything; after maxReconsumeTimes the message is a dead letter. */
    private static void refuse() throws Exception {
        DefaultMQPushConsumer c = push();
        c.setMaxReconsumeTimes(number("max", 1));
        c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> {
            for (MessageExt m : ms) got(m);
            x.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        c.start();
        untilStopped(c::shutdown);
    }

    private static void trace() throws Exception {
        DefaultMQProducer p = producer(true);
        for (int i = 0; i < number("count", 5); i++) {
            SendResult r = p.send(new Message(one("topic", ""), "TagT", "key" + i, ("traced " + i).getBytes(StandardCharsets.UTF_8)));
            line("{\"status\":" + quote(r.getSendStatus().name()) + ",\"msgId\":" + quote(r.getMsgId()) + ",\"traceOn\":" + r.isTraceOn() + ",\"region\":" + quote(r.getRegionId()) + "}");
        }
        Thread.sleep(2000); // the trace worker sends in the background
        p.shutdown();
    }

    /** Sends one message per key by SelectMessageQueueByHash and tells its queue. */
    private static void hash() throws Exception {
        DefaultMQProducer p = producer(false);
        for (String key : opt.get("key")) {
            SendResult r = p.send(new Message(one("topic", ""), "TagH", key, key.getBytes(StandardCharsets.UTF_8)), new SelectMessageQueueByHash(), key);
            line("{\"key\":" + quote(key) + ",\"queueId\":" + r.getMessageQueue().getQueueId() + "}");
        }
        p.shutdown();
    }

    public static void main(String[] args) throws Exception {
        for (int i = 1; i + 1 < args.length; i += 2) opt.computeIfAbsent(args[i].replaceFirst("^--", ""), k -> new ArrayList<>()).add(args[i + 1]);
        int code = 0;
        try {
            switch (args[0]) {
                case "reply": reply(); break;
                case "request": request(); break;
                case "pull": pull(); break;
                case "lite": lite(); break;
                case "broadcast": broadcast(); break;
                case "refuse": refuse(); break;
                case "trace": trace(); break;
                case "hash": hash(); break;
                default: throw new IllegalArgumentException(args[0]);
            }
        } catch (Throwable e) {
            line("{\"error\":" + quote(e.toString()) + "}");
            e.printStackTrace();
            code = 1;
        }
        System.exit(code);
    }
}
