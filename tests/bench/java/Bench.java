// Load from the unmodified Java client against any broker: the same program measures the Java broker
// and Tenon. One thread sends one message after another (the blocking call that applications use).
//
//   java -cp "JARS/*:." Bench NAMESRV_HOST:PORT SECONDS_PER_CASE
//   java -cp "JARS/*:." Bench NAMESRV_HOST:PORT SECONDS_PER_CASE sdk SEND_TOPIC FULL_TOPIC COUNT
//
// The second form has the cases of sdk_load.cpp: one thread, 64 in flight, and a new group that reads COUNT messages of a topic
// that holds them; each after a run of the same kind that is not reported.
//
// Prints a line {"begin":NAME} before and a JSON line after each case: messages per second, latency
// percentiles in microseconds, failures, CPU seconds of this process.
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

public class Bench {
    private static String namesrv;
    private static int seconds;

    private static double cpu() { return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9; }

    private static void say(String format, Object... args) {
        System.out.println(String.format(java.util.Locale.ROOT, format, args));
        System.out.flush();
    }

    private static double at(long[] sorted, double q) { return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, sorted.length * q)] / 1e3; }

    private static void send(DefaultMQProducer producer, String name, String topic, int size, int threads, int length) throws Exception {
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        ConcurrentLinkedQueue<long[]> all = new ConcurrentLinkedQueue<>();
        AtomicLong failed = new AtomicLong();
        say("{\"begin\":\"%s\"}", name);
        double cpu0 = cpu();
        long begin = System.nanoTime(), end = begin + length * 1_000_000_000L;
        Thread[] pool = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            pool[t] = new Thread(() -> {
                long[] took = new long[1 << 16];
                int n = 0;
                for (long t0 = System.nanoTime(); t0 < end; t0 = System.nanoTime()) {
                    try {
                        if (producer.send(new Message(topic, "TagA", "k" + n, body)).getSendStatus() != SendStatus.SEND_OK) throw new IllegalStateException();
                    } catch (Exception e) {
                        failed.incrementAndGet();
                        continue;
                    }
                    if (n == took.length) took = Arrays.copyOf(took, 2 * n);
                    took[n++] = System.nanoTime() - t0;
                }
                all.add(Arrays.copyOf(took, n));
            });
            pool[t].start();
        }
        for (Thread t : pool) t.join();
        double elapsed = (System.nanoTime() - begin) / 1e9;
        long[] sorted = all.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        say("{\"case\":\"%s\",\"size\":%d,\"threads\":%d,\"count\":%d,\"per_second\":%.0f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"p999_us\":%.0f,\"max_us\":%.0f,\"failed\":%d,\"client_cpu\":%.2f}",
            name, size, threads, sorted.length, sorted.length / elapsed, at(sorted, 0.5), at(sorted, 0.99), at(sorted, 0.999), at(sorted, 1), failed.get(), cpu() - cpu0);
    }

    private static DefaultMQPushConsumer consumer(String group, String topic, ConsumeFromWhere where, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(group + System.currentTimeMillis());
        c.setNamesrvAddr(namesrv);
        c.setConsumeFromWhere(where);
        c.subscribe(topic, "*");
        c.registerMessageListener(listener);
        c.start();
        return c;
    }

    private static void drain(String topic) throws Exception {
        AtomicLong got = new AtomicLong(), bytes = new AtomicLong();
        say("{\"begin\":\"drain\"}");
        DefaultMQPushConsumer c = consumer("bench-drain-", topic, ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, (ms, x) -> {
            got.addAndGet(ms.size());
            for (MessageExt m : ms) bytes.addAndGet(m.getBody().length);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        while (got.get() == 0) Thread.sleep(5);
        double cpu0 = cpu();
        long n0 = got.get(), b0 = bytes.get(), t0 = System.nanoTime();
        Thread.sleep(seconds * 1000L);
        double elapsed = (System.nanoTime() - t0) / 1e9;
        say("{\"case\":\"drain\",\"count\":%d,\"per_second\":%.0f,\"mb_per_second\":%.1f,\"client_cpu\":%.2f}", got.get() - n0, (got.get() - n0) / elapsed, (bytes.get() - b0) / elapsed / 1e6, cpu() - cpu0);
        c.shutdown();
    }

    /** So many in flight all the time: each callback sends the next one. */
    private static void async(DefaultMQProducer producer, String topic, int size, int inFlight, int length, boolean report) throws Exception {
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        AtomicLong done = new AtomicLong();
        CountDownLatch left = new CountDownLatch(inFlight);
        double cpu0 = cpu();
        long begin = System.nanoTime(), end = begin + length * 1_000_000_000L;
        SendCallback next = new SendCallback() {
            @Override public void onSuccess(SendResult r) {
                done.incrementAndGet();
                if (System.nanoTime() >= end) { left.countDown(); return; }
                try { producer.send(new Message(topic, "TagA", "k" + done.get(), body), this); } catch (Exception e) { onException(e); }
            }
            @Override public void onException(Throwable e) { e.printStackTrace(); System.exit(1); }
        };
        for (int i = 0; i < inFlight; i++) producer.send(new Message(topic, "TagA", "k" + i, body), next);
        left.await();
        if (report) say("{\"case\":\"async\",\"count\":%d,\"per_second\":%.0f,\"client_cpu\":%.3f}", done.get(), done.get() / ((System.nanoTime() - begin) / 1e9), cpu() - cpu0);
    }

    /** A new group reads so many messages; what counts begins after the first tenth. */
    private static void consume(String topic, long count, int batch, boolean report) throws Exception {
        AtomicLong got = new AtomicLong(), bytes = new AtomicLong();
        long warm = count / 10;
        double[] cpus = new double[2];
        long[] times = new long[2];
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer c = new DefaultMQPushConsumer("bench-consume-" + System.currentTimeMillis());
        c.setNamesrvAddr(namesrv);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setConsumeMessageBatchMaxSize(batch);
        c.subscribe(topic, "*");
        c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> {
            long some = 0, n = ms.size();
            for (MessageExt m : ms) some += m.getBody().length;
            long before = got.getAndAdd(n);
            if (before >= warm) bytes.addAndGet(some);
            else if (before + n >= warm) { cpus[0] = cpu(); times[0] = System.nanoTime(); }
            if (before < count && before + n >= count) { cpus[1] = cpu(); times[1] = System.nanoTime(); done.countDown(); }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        if (!done.await(300, TimeUnit.SECONDS)) throw new IllegalStateException("only " + got.get() + " messages came");
        double elapsed = (times[1] - times[0]) / 1e9;
        if (report) say("{\"case\":\"consume\",\"count\":%d,\"per_second\":%.0f,\"mb_per_second\":%.1f,\"batch\":%d,\"client_cpu\":%.3f}", count - warm, (count - warm) / elapsed, bytes.get() / elapsed / 1e6, batch, cpus[1] - cpus[0]);
        c.shutdown();
    }

    private static void sdk(DefaultMQProducer producer, String topic, String full, long count) throws Exception {
        async(producer, topic, 128, 64, 3, false);
        async(producer, topic, 128, 64, seconds, true);
        send(producer, "warm-up", topic, 128, 1, 1);
        send(producer, "sync", topic, 128, 1, seconds);
        consume(full, count, 1, false);
        consume(full, count, 1, true);
        consume(full, count, 32, true);
    }

    private static void paced(DefaultMQProducer producer, String topic) throws Exception {
        ConcurrentLinkedQueue<Long> took = new ConcurrentLinkedQueue<>();
        say("{\"begin\":\"end-to-end\"}");
        DefaultMQPushConsumer c = consumer("bench-paced-", topic, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, (ms, x) -> {
            long now = System.nanoTime();
            for (MessageExt m : ms) took.add(now - Long.parseLong(m.getUserProperty("sentNs")));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Thread.sleep(3000);
        double cpu0 = cpu();
        for (int i = 0; i < seconds * 500; i++) {
            Message m = new Message(topic, "TagA", "k", new byte[128]);
            m.putUserProperty("sentNs", "" + System.nanoTime());
            producer.send(m);
            Thread.sleep(2);
        }
        Thread.sleep(1000);
        long[] sorted = took.stream().mapToLong(x -> x).sorted().toArray();
        say("{\"case\":\"end-to-end\",\"count\":%d,\"p50_us\":%.0f,\"p99_us\":%.0f,\"max_us\":%.0f,\"client_cpu\":%.2f}", sorted.length, at(sorted, 0.5), at(sorted, 0.99), at(sorted, 1), cpu() - cpu0);
        c.shutdown();
    }

    public static void main(String[] args) throws Exception {
        namesrv = args[0];
        seconds = Integer.parseInt(args[1]);
        DefaultMQProducer producer = new DefaultMQProducer("bench-producer");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(5000);
        producer.start();
        if (args.length > 2) {
            sdk(producer, args[3], args[4], Long.parseLong(args[5]));
            System.exit(0);
        }
        String topic = "BenchTopic" + System.currentTimeMillis(), big = topic + "K", paced = topic + "P";
        producer.createTopic("TBW102", topic, 8);
        producer.createTopic("TBW102", big, 8);
        producer.createTopic("TBW102", paced, 1);
        Thread.sleep(1500);
        send(producer, "warm-up", topic, 128, 64, Math.max(2, seconds / 2));
        send(producer, "128 B, 1 thread", topic, 128, 1, seconds);
        send(producer, "128 B, 16 threads", topic, 128, 16, seconds);
        send(producer, "128 B, 64 threads", topic, 128, 64, seconds);
        send(producer, "1 KiB, 64 threads", big, 1024, 64, seconds);
        drain(big);
        paced(producer, paced);
        System.exit(0);
    }
}
