// The unmodified Java client driven by the interop harness; the command line and the output are
// the same for every language (see ../README.md). Compiled once and run against both client
// versions, each on its own class path.
import java.io.PrintStream;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

public class Scenario {
    private static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);

    static synchronized void line(String text) {
        OUT.println(text);
        OUT.flush();
    }

    static String quote(String s) {
        if (s == null) return "null";
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') b.append('\\').append(c);
            else if (c < 0x20) b.append(String.format("\\u%04x", (int) c));
            else b.append(c);
        }
        return b.append('"').toString();
    }

    private static byte[] body(String spec) {
        String[] p = spec.split(":", 3);
        if (p[0].equals("text")) return decode(p[1]).getBytes(StandardCharsets.UTF_8);
        byte[] out = new byte[Integer.parseInt(p[1])];
        int seed = Integer.parseInt(p[2]);
        if (p[0].equals("rep")) {
            for (int i = 0; i < out.length; i++) out[i] = (byte) ('a' + (seed + i) % 26);
            return out;
        }
        int x = (seed * 0x9E3779B1) | 1;
        for (int i = 0; i < out.length; i++) {
            x ^= x << 13;
            x ^= x >>> 17;
            x ^= x << 5;
            out[i] = (byte) x;
        }
        return out;
    }

    private static String decode(String s) { return URLDecoder.decode(s.replace("+", "%2B"), StandardCharsets.UTF_8); }

    /** Only the 5.x client has these methods. */
    private static void timer(Message m, String method, String value) throws Exception {
        Message.class.getMethod(method, long.class).invoke(m, Long.parseLong(value));
    }

    /** Takes a message back if it says RECALL; what the broker answered, or null. */
    private static String recall(DefaultMQProducer producer, Message m, SendResult r) throws Exception {
        if (m.getUserProperty("RECALL") == null) return null;
        String handle = (String) SendResult.class.getMethod("getRecallHandle").invoke(r);
        return (String) DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class).invoke(producer, m.getTopic(), handle);
    }

    private static List<Message> messages(Map<String, List<String>> opt) throws Exception {
        List<Message> out = new ArrayList<>();
        if (opt.containsKey("messages")) {
            for (String l : Files.readAllLines(Paths.get(one(opt, "messages", "")))) {
                String[] f = l.split("\t", 5);
                Message m = new Message(f[0], body(f[4]));
                if (!f[1].isEmpty()) m.setTags(decode(f[1]));
                if (!f[2].isEmpty()) m.setKeys(decode(f[2]));
                for (String pair : f[3].split("&")) {
                    if (pair.isEmpty()) continue;
                    String name = decode(pair.substring(0, pair.indexOf('='))), value = decode(pair.substring(pair.indexOf('=') + 1));
                    if (name.equals("DELAY")) m.setDelayTimeLevel(Integer.parseInt(value));
                    else if (name.equals("TIMER_DELAY_SEC")) timer(m, "setDelayTimeSec", value);
                    else if (name.equals("TIMER_DELAY_MS")) timer(m, "setDelayTimeMs", value);
                    else if (name.equals("TIMER_DELIVER_MS")) timer(m, "setDeliverTimeMs", value);
                    else m.putUserProperty(name, value);
                }
                out.add(m);
            }
            return out;
        }
        int count = Integer.parseInt(one(opt, "count", "1"));
        int size = Integer.parseInt(one(opt, "size", "64"));
        for (int i = 0; i < count; i++) {
            Message m = new Message(one(opt, "topic", ""), "TagA", "key-" + i, body("rnd:" + size + ":" + i));
            m.putUserProperty("i", "" + i);
            out.add(m);
        }
        return out;
    }

    private static int produce(Map<String, List<String>> opt) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(one(opt, "group", "interop-producer"));
        producer.setNamesrvAddr(one(opt, "namesrv", ""));
        producer.setSendMsgTimeout(10000);
        producer.setMqClientApiTimeout(15000); // a cold JVM among many others needs more than 3 s now and then
        if (opt.containsKey("namespace")) producer.setNamespace(one(opt, "namespace", ""));
        producer.start();
        int failed = 0, n = 0;
        if (opt.containsKey("batch")) {
            SendResult r = producer.send(messages(opt));
            line("{\"n\":0,\"status\":" + quote(r.getSendStatus().name()) + ",\"msgId\":" + quote(r.getMsgId()) + ",\"offsetMsgId\":" + quote(r.getOffsetMsgId()) + "}");
            producer.shutdown();
            return 0;
        }
        for (Message m : messages(opt)) {
            try {
                SendResult r = producer.send(m);
                String recalled = recall(producer, m, r);
                line("{\"n\":" + n + ",\"status\":" + quote(r.getSendStatus().name()) + ",\"msgId\":" + quote(r.getMsgId()) + ",\"offsetMsgId\":" + quote(r.getOffsetMsgId())
                    + ",\"topic\":" + quote(m.getTopic()) + ",\"queueId\":" + r.getMessageQueue().getQueueId() + ",\"queueOffset\":" + r.getQueueOffset() + (recalled == null ? "" : ",\"recalled\":" + quote(recalled)) + "}");
            } catch (Exception e) {
                failed++;
                line("{\"n\":" + n + ",\"topic\":" + quote(m.getTopic()) + ",\"error\":" + quote(e.toString()) + "}");
            }
            n++;
            Thread.sleep(Long.parseLong(one(opt, "interval", "0")));
        }
        producer.shutdown();
        return failed == 0 ? 0 : 1;
    }

    private static String received(MessageExt m) throws Exception {
        byte[] body = m.getBody() == null ? new byte[0] : m.getBody();
        StringBuilder sha = new StringBuilder();
        for (byte b : MessageDigest.getInstance("SHA-256").digest(body)) sha.append(String.format("%02x", b));
        StringBuilder props = new StringBuilder();
        for (Map.Entry<String, String> e : new TreeMap<>(m.getProperties()).entrySet()) props.append(props.length() == 0 ? "" : ",").append(quote(e.getKey())).append(':').append(quote(e.getValue()));
        return "{\"topic\":" + quote(m.getTopic()) + ",\"msgId\":" + quote(m.getMsgId()) + ",\"tags\":" + quote(m.getTags()) + ",\"keys\":" + quote(m.getKeys()) + ",\"props\":{" + props
            + "},\"length\":" + body.length + ",\"sha256\":\"" + sha + "\",\"queueId\":" + m.getQueueId() + ",\"queueOffset\":" + m.getQueueOffset() + ",\"reconsumeTimes\":" + m.getReconsumeTimes() + "}";
    }

    private static int consume(Map<String, List<String>> opt) throws Exception {
        int expect = Integer.parseInt(one(opt, "expect", "0"));
        long timeout = (long) (Double.parseDouble(one(opt, "timeout", "60")) * 1000), quiet = (long) (Double.parseDouble(one(opt, "quiet", "1")) * 1000);
        AtomicInteger got = new AtomicInteger();
        AtomicLong last = new AtomicLong(System.currentTimeMillis());
        AtomicBoolean closed = new AtomicBoolean();
        CountDownLatch stop = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(one(opt, "group", ""));
        consumer.setNamesrvAddr(one(opt, "namesrv", ""));
        consumer.setMqClientApiTimeout(15000);
        if (opt.containsKey("namespace")) consumer.setNamespace(one(opt, "namespace", ""));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        for (String topic : opt.get("topic")) {
            if (opt.containsKey("sql")) consumer.subscribe(topic, MessageSelector.bySql(one(opt, "sql", "")));
            else consumer.subscribe(topic, one(opt, "tag", "*"));
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (ms, x) -> {
            boolean again = false;
            for (MessageExt m : ms) {
                if (m.getUserProperty("fail") != null && m.getReconsumeTimes() == 0) again = true;
                try { line(received(m)); } catch (Exception e) { line("{\"error\":" + quote(e.toString()) + "}"); }
                got.incrementAndGet();
                last.set(System.currentTimeMillis());
            }
            return again ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Runnable close = () -> {
            if (closed.getAndSet(true)) return;
            consumer.shutdown();
            line("{\"event\":\"end\",\"count\":" + got.get() + "}");
        };
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { stop.countDown(); close.run(); }));
        consumer.start();
        line("{\"event\":\"started\"}");
        long end = System.currentTimeMillis() + timeout;
        while (System.currentTimeMillis() < end && !(expect > 0 && got.get() >= expect && System.currentTimeMillis() - last.get() >= quiet)) {
            if (stop.await(20, java.util.concurrent.TimeUnit.MILLISECONDS)) break;
        }
        close.run();
        return expect > 0 && got.get() < expect ? 1 : 0;
    }

    static String one(Map<String, List<String>> opt, String name, String otherwise) { return opt.containsKey(name) ? opt.get(name).get(0) : otherwise; }

    public static void main(String[] args) throws Exception {
        Map<String, List<String>> opt = new HashMap<>();
        for (int i = 1; i + 1 < args.length; i += 2) opt.computeIfAbsent(args[i].replaceFirst("^--", ""), k -> new ArrayList<>()).add(args[i + 1]);
        int code = 1;
        try {
            code = args[0].equals("transact") ? Transact.run(opt) : args[0].equals("produce") ? produce(opt) : consume(opt);
        } catch (Throwable e) {
            line("{\"error\":" + quote(e.toString()) + "}");
            e.printStackTrace();
        }
        System.exit(code);
    }
}
