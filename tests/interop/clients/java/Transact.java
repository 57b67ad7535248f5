// Transactions of the unmodified Java client; see ../README.md for the command line and the output.
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

class Transact {
    private static LocalTransactionState state(String list, int n) {
        String[] words = list.split(",");
        switch (words[n % words.length]) {
            case "commit": return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback": return LocalTransactionState.ROLLBACK_MESSAGE;
            default: return LocalTransactionState.UNKNOW;
        }
    }

    static int run(Map<String, List<String>> opt) throws Exception {
        String decide = Scenario.one(opt, "decide", "unknown"), answer = Scenario.one(opt, "answer", "unknown");
        long hold = Long.parseLong(Scenario.one(opt, "hold", "0"));
        TransactionMQProducer producer = new TransactionMQProducer(Scenario.one(opt, "group", ""));
        producer.setNamesrvAddr(Scenario.one(opt, "namesrv", ""));
        producer.setSendMsgTimeout(10000);
        producer.setHeartbeatBrokerInterval(1000); // the broker asks whom it knows
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object n) {
                Scenario.line("{\"event\":\"half\",\"n\":" + n + "}");
                try { Thread.sleep(hold); } catch (InterruptedException e) { Thread.currentThread().interrupt(); }
                return state(decide, (Integer) n);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                int n = Integer.parseInt(m.getUserProperty("i"));
                Scenario.line("{\"event\":\"check\",\"n\":" + n + ",\"checks\":" + Scenario.quote(m.getProperty("TRANSACTION_CHECK_TIMES")) + ",\"topic\":" + Scenario.quote(m.getTopic())
                    + ",\"transactionId\":" + Scenario.quote(m.getTransactionId()) + ",\"length\":" + m.getBody().length + "}");
                return state(answer, n);
            }
        });
        CountDownLatch stop = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(stop::countDown));
        producer.start();
        int count = Integer.parseInt(Scenario.one(opt, "count", "0"));
        for (int n = 0; n < count; n++) {
            Message m = new Message(Scenario.one(opt, "topic", ""), "TagT", "key-" + n, ("transaction " + n).getBytes());
            m.putUserProperty("i", "" + n);
            try {
                TransactionSendResult r = producer.sendMessageInTransaction(m, n);
                Scenario.line("{\"n\":" + n + ",\"status\":" + Scenario.quote(r.getSendStatus().name()) + ",\"state\":" + Scenario.quote(r.getLocalTransactionState().name()) + ",\"msgId\":"
                    + Scenario.quote(r.getMsgId()) + ",\"offsetMsgId\":" + Scenario.quote(r.getOffsetMsgId()) + ",\"queueOffset\":" + r.getQueueOffset() + "}");
            } catch (Exception e) {
                Scenario.line("{\"n\":" + n + ",\"error\":" + Scenario.quote(e.toString()) + "}");
            }
        }
        Scenario.line("{\"event\":\"started\"}");
        stop.await((long) (Double.parseDouble(Scenario.one(opt, "timeout", "60")) * 1000), java.util.concurrent.TimeUnit.MILLISECONDS);
        producer.shutdown();
        Scenario.line("{\"event\":\"end\"}");
        return 0;
    }
}
