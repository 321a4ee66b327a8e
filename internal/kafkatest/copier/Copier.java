import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/**
 * Copies a topic to another in transactions, as a member of a consumer group, after the manner of
 * Kafka's own TransactionalMessageCopier: the consumed offsets are in the transaction, bound to the
 * member by its group metadata. Partition, key, value, headers and timestamp are kept.
 *
 * <p>Arguments are name=value. Each event is one line of JSON on standard output. SIGTERM ends it
 * in order, with code 0.
 */
public final class Copier {
  private static final CountDownLatch stopping = new CountDownLatch(1), ended = new CountDownLatch(1);
  private static volatile KafkaConsumer<byte[], byte[]> waiting;

  private final Map<String, String> args;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private KafkaProducer<byte[], byte[]> producer;
  private long transactions, copied;

  public static void main(String[] words) {
    Map<String, String> args = new HashMap<>();
    for (String word : words) {
      int at = word.indexOf('=');
      args.put(word.substring(0, at), word.substring(at + 1));
    }
    // A JVM that ends by SIGTERM has code 143, whatever the program did. The hook halts it with 0 when
    // the copier has come to rest, so that a clean stop can be told from a failure.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      stopping.countDown();
      KafkaConsumer<byte[], byte[]> c = waiting;
      if (c != null) c.wakeup();
      try {
        ended.await();
      } catch (InterruptedException e) {
        Runtime.getRuntime().halt(1);
      }
      if (failure == null) Runtime.getRuntime().halt(0);
    }));
    try {
      new Copier(args).run();
    } catch (Throwable e) {
      failure = e;
      e.printStackTrace();
    }
    ended.countDown();
    System.exit(failure == null ? 0 : 1);
  }

  private static volatile Throwable failure;

  private Copier(Map<String, String> args) {
    this.args = args;
    Properties p = common();
    p.put("group.id", args.get("group"));
    p.put("isolation.level", "read_committed");
    p.put("enable.auto.commit", "false");
    p.put("auto.offset.reset", "earliest");
    p.put("max.poll.records", args.get("records"));
    if (args.get("serverSide").equals("true")) {
      p.put("group.protocol", "consumer");
    } else {
      String assignors = args.get("assignors");
      p.put("partition.assignment.strategy", assignors.isEmpty() ? Leader.class.getName() : assignors);
      p.put("session.timeout.ms", args.get("session"));
      p.put("heartbeat.interval.ms", args.get("heartbeat"));
    }
    p.put("max.poll.interval.ms", args.get("rebalance"));
    consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    waiting = consumer;
  }

  private Properties common() {
    Properties p = new Properties();
    p.put("bootstrap.servers", args.get("brokers"));
    p.put("client.id", args.get("client"));
    p.put("metadata.max.age.ms", "5000");
    p.put("reconnect.backoff.max.ms", "200");
    return p;
  }

  /** Takes the transactional id: what an earlier process left open under it is aborted. */
  private void initialise() {
    Properties p = common();
    p.put("transactional.id", args.get("id"));
    p.put("transaction.timeout.ms", args.get("timeout"));
    // Small batches and several in flight, so that one transaction has many requests.
    p.put("batch.size", "512");
    p.put("max.in.flight.requests.per.connection", "5");
    producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    producer.initTransactions();
  }

  private void run() {
    initialise();
    say("started");
    consumer.subscribe(List.of(args.get("input")), new Listener());
    try {
      while (stopping.getCount() > 0) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
        if (!records.isEmpty()) copy(records);
      }
    } catch (WakeupException e) {
      if (stopping.getCount() > 0) throw e;
    } finally {
      consumer.close();
      producer.close();
    }
    say("stopped", "copied", copied);
  }

  private void copy(ConsumerRecords<byte[], byte[]> records) {
    long number = ++transactions, every = Long.parseLong(args.get("abortEvery"));
    Path hold = args.get("hold").isEmpty() ? null : Path.of(args.get("hold"));
    boolean abort = every > 0 && number % every == 0;
    try {
      producer.beginTransaction();
      Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
      for (TopicPartition tp : records.partitions()) {
        List<ConsumerRecord<byte[], byte[]>> rs = records.records(tp);
        for (ConsumerRecord<byte[], byte[]> r : rs)
          producer.send(new ProducerRecord<>(args.get("output"), r.partition(), r.timestamp(), r.key(), r.value(), r.headers()));
        ConsumerRecord<byte[], byte[]> last = rs.get(rs.size() - 1);
        next.put(tp, new OffsetAndMetadata(last.offset() + 1, last.leaderEpoch(), ""));
      }
      producer.flush();
      producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
      if (hold != null && Files.exists(hold)) {
        say("holding", "transaction", number, "records", records.count());
        stopping.await();
      }
      if (abort) {
        producer.abortTransaction();
        reset();
        say("aborted", "transaction", number, "records", records.count());
        return;
      }
      producer.commitTransaction();
      copied += records.count();
      say("committed", "transaction", number, "records", records.count(), "copied", copied);
    } catch (WakeupException e) {
      throw e;
    } catch (KafkaException e) {
      say("failed", "transaction", number, "error", e.toString());
      recover();
      reset();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /**
   * Aborts, or, where the producer is of no use any more, makes another one. Whether a transaction
   * whose end failed was committed is told by the committed offsets, to which reset() goes back.
   */
  private void recover() {
    try {
      producer.abortTransaction();
    } catch (KafkaException | IllegalStateException e) {
      say("reinitialised", "error", e.toString());
      producer.close(Duration.ZERO);
      initialise();
    }
  }

  private void reset() {
    Set<TopicPartition> mine = consumer.assignment();
    Map<TopicPartition, OffsetAndMetadata> committed = null;
    while (committed == null) {
      try {
        committed = consumer.committed(mine);
      } catch (TimeoutException e) { // a broker is away, or a transaction on these offsets is open
        say("waiting", "error", e.toString());
      }
    }
    for (TopicPartition tp : mine) {
      OffsetAndMetadata o = committed.get(tp);
      if (o == null) consumer.seekToBeginning(List.of(tp));
      else consumer.seek(tp, o);
    }
  }

  private static final class Listener implements ConsumerRebalanceListener {
    @Override public void onPartitionsAssigned(Collection<TopicPartition> ps) { say("assigned", "partitions", numbers(ps)); }
    @Override public void onPartitionsRevoked(Collection<TopicPartition> ps) { say("revoked", "partitions", numbers(ps)); }
    @Override public void onPartitionsLost(Collection<TopicPartition> ps) { say("lost", "partitions", numbers(ps)); }
  }

  /** The assignor tells when this member leads the group: only the leader assigns. */
  public static final class Leader extends CooperativeStickyAssignor {
    @Override public GroupAssignment assign(Cluster metadata, GroupSubscription group) {
      say("leads", "members", group.groupSubscription().size());
      return super.assign(metadata, group);
    }
  }

  private static List<Integer> numbers(Collection<TopicPartition> ps) {
    return ps.stream().map(TopicPartition::partition).sorted().collect(Collectors.toList());
  }

  /** Prints one event; fields are names and values in turn. */
  private static void say(String event, Object... fields) {
    StringBuilder line = new StringBuilder("{\"event\":\"").append(event).append('"');
    for (int i = 0; i < fields.length; i += 2) {
      line.append(",\"").append(fields[i]).append("\":");
      if (fields[i + 1] instanceof String s) line.append(quoted(s));
      else line.append(fields[i + 1]);
    }
    System.out.println(line.append('}'));
  }

  private static String quoted(String s) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : s.toCharArray()) {
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else out.append(c < ' ' ? ' ' : c);
    }
    return out.append('"').toString();
  }
}
