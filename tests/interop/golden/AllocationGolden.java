// Prints what the official RocketMQ client's allocation strategies give for many member and queue counts.
// Usage: java -cp '<jars of rocketmq-client 4.9.7>/*' AllocationGolden.java OUTPUT_DIR
//
// Line "m q : o0 o1 …": with m members and q queues, queue k belongs to member o_k, "-" to none.
// Line "digest m h": CRC-32 over the lines "m q : …\n" of all q = 0…256 for this m, so that every combination is
// pinned without storing it.

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

public class AllocationGolden {
    static final Set<Integer> SHOWN_MEMBERS = new TreeSet<>(Arrays.asList(1, 2, 3, 4, 5, 6, 7, 13, 31, 64));
    static final Set<Integer> SHOWN_QUEUES = new TreeSet<>(Arrays.asList(0, 1, 2, 3, 4, 5, 7, 8, 12, 17, 31, 64, 100, 256));

    static List<String> members(int m) {
        List<String> all = new ArrayList<>();
        for (int k = 0; k < m; k++) {
            all.add("10." + (k % 3) + ".0." + k + "@" + (1000 + k));
        }
        Collections.sort(all);
        return all;
    }

    // Queues 0..7 on the first broker, 8..15 on the second and so on; prefixed by a room if rooms are wanted. Broker 4
    // of 5 has no room then, and every sixth one has a name with two separators.
    static List<MessageQueue> queues(int q, boolean rooms) {
        List<MessageQueue> all = new ArrayList<>();
        for (int k = 0; k < q; k++) {
            int b = k / 8;
            String name = String.format("broker-%02d", b);
            if (rooms) {
                name = b % 5 == 4 ? name : b % 6 == 5 ? "r1@" + name + "@x" : "r" + (b % 3) + "@" + name;
            }
            all.add(new MessageQueue("TopicTest", name, k % 8));
        }
        Collections.sort(all);
        return all;
    }

    // Nearby: the room of a queue is r<b mod 4> of its broker's number, the room of a member r<second part of its IP>.
    static final AllocateMachineRoomNearby.MachineRoomResolver RESOLVER = new AllocateMachineRoomNearby.MachineRoomResolver() {
        public String brokerDeployIn(MessageQueue queue) {
            return "r" + Integer.parseInt(queue.getBrokerName().substring(7)) % 4;
        }

        public String consumerDeployIn(String clientId) {
            return "r" + clientId.split("\\.")[1];
        }
    };

    static String line(AllocateMessageQueueStrategy strategy, int m, int q, boolean rooms) {
        List<String> members = members(m);
        List<MessageQueue> queues = queues(q, rooms);
        int[] owner = new int[q];
        Arrays.fill(owner, -1);
        for (int i = 0; q > 0 && i < m; i++) {
            for (MessageQueue mq : strategy.allocate("G", members.get(i), queues, members)) {
                int k = queues.indexOf(mq);
                if (owner[k] >= 0) {
                    throw new IllegalStateException("queue given twice: " + mq);
                }
                owner[k] = i;
            }
        }
        StringBuilder out = new StringBuilder().append(m).append(' ').append(q).append(" :");
        for (int o : owner) {
            out.append(' ').append(o < 0 ? "-" : Integer.toString(o));
        }
        return out.append('\n').toString();
    }

    static void write(Path dir, String name, AllocateMessageQueueStrategy strategy, boolean rooms) throws Exception {
        try (PrintStream out = new PrintStream(Files.newOutputStream(dir.resolve(name + ".txt")))) {
            out.print("# " + strategy.getName() + "\n");
            for (int m = 1; m <= 64; m++) {
                CRC32 crc = new CRC32();
                for (int q = 0; q <= 256; q++) {
                    String line = line(strategy, m, q, rooms);
                    crc.update(line.getBytes(StandardCharsets.UTF_8));
                    if (SHOWN_MEMBERS.contains(m) && SHOWN_QUEUES.contains(q)) {
                        out.print(line);
                    }
                }
                out.print("digest " + m + " " + crc.getValue() + "\n");
            }
        }
    }

    public static void main(String[] args) throws Exception {
        Path dir = Path.of(args[0]);
        write(dir, "averagely", new AllocateMessageQueueAveragely(), false);
        write(dir, "circle", new AllocateMessageQueueAveragelyByCircle(), false);
        write(dir, "consistent-hash", new AllocateMessageQueueConsistentHash(), false);
        AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
        room.setConsumeridcs(new HashSet<>(Arrays.asList("r0", "r2")));
        write(dir, "machine-room", room, true);
        write(dir, "machine-room-nearby-averagely",
            new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), RESOLVER), false);
        write(dir, "machine-room-nearby-circle",
            new AllocateMachineRoomNearby(new AllocateMessageQueueAveragelyByCircle(), RESOLVER), false);
    }
}
