// An orderly consumer of the unmodified Java client: tells the begin and the end of each message,
// so that a test sees whether two members ever worked on one queue at a time. Options as in
// Scenario.java: --namesrv, --group, --topic, --pause (ms for each message), --timeout (s).
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

public class Orderly {
    private static synchronized void line(String text) {
        System.out.println(text);
        System.out.flush();
    }

    private static void tell(String event, MessageExt m) {
        line("{\"event\":\"" + event + "\",\"queueId\":" + m.getQueueId() + ",\"queueOffset\":" + m.getQueueOffset() + ",\"ms\":" + System.currentTimeMillis() + "}");
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> opt = new HashMap<>();
        for (int i = 1; i + 1 < args.length; i += 2) opt.put(args[i].replaceFirst("^--", ""), args[i + 1]);
        long pause = Long.parseLong(opt.getOrDefault("pause", "5"));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(opt.get("group"));
        consumer.setNamesrvAddr(opt.get("namesrv"));
        consumer.setMqClientApiTimeout(15000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(opt.get("topic"), "*");
        consumer.registerMessageListener((MessageListenerOrderly) (ms, context) -> {
            for (MessageExt m : ms) {
                tell("begin", m);
                try {
                    Thread.sleep(pause);
                } catch (InterruptedException e) {
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                tell("end", m);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        line("{\"event\":\"started\"}");
        Thread.sleep(1000L * Long.parseLong(opt.getOrDefault("timeout", "60")));
        consumer.shutdown();
    }
}
