// SPDX-License-Identifier: Apache-2.0
// The unmodified azure-messaging-servicebus against a server of oxbus, with and without partitioned entities.
// tests/amqp/test_java.py creates the entities and passes the server's address.

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;

final class Suite {
    private static final Duration WAIT = Duration.ofSeconds(30);

    private final String kind;
    private final ServiceBusClientBuilder builder;

    private Suite(String kind) {
        this.kind = kind;
        this.builder = builder();
    }

    private static ServiceBusClientBuilder builder() {
        return new ServiceBusClientBuilder()
            .connectionString(System.getenv("OXBUS_CONNECTION_STRING"))
            .retryOptions(new AmqpRetryOptions().setMaxRetries(0));
    }

    private static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    private static ServiceBusException refused(Runnable call) {
        try {
            call.run();
        } catch (ServiceBusException refused) {
            return refused;
        } catch (RuntimeException refused) {
            return null;
        }
        throw new AssertionError("the call was not refused");
    }

    private static ServiceBusMessage message(String body) {
        return new ServiceBusMessage(body).setPartitionKey("k");
    }

    private static List<ServiceBusReceivedMessage> take(ServiceBusReceiverClient receiver, int count) {
        List<ServiceBusReceivedMessage> messages = new ArrayList<>();
        while (messages.size() < count) {
            int before = messages.size();
            receiver.receiveMessages(count - before, WAIT).forEach(messages::add);
            if (messages.size() == before) {
                throw new AssertionError(before + " of " + count + " messages came");
            }
        }
        return messages;
    }

    private static List<String> bodies(Iterable<ServiceBusReceivedMessage> messages) {
        List<String> found = new ArrayList<>();
        messages.forEach(message -> found.add(message.getBody().toString()));
        return found;
    }

    private ServiceBusSenderClient sender(String queue) {
        return builder.sender().queueName(kind + queue).buildClient();
    }

    private ServiceBusReceiverClient receiver(String queue) {
        return builder.receiver().queueName(kind + queue).disableAutoComplete().buildClient();
    }

    private void messages() {
        try (ServiceBusSenderClient sender = sender("-orders"); ServiceBusReceiverClient receiver = receiver("-orders")) {
            ServiceBusMessage sent = message("body").setMessageId("m").setCorrelationId("c").setSubject("subject")
                .setTimeToLive(Duration.ofMinutes(1));
            sent.getApplicationProperties().putAll(Map.of("text", "t", "number", 7L, "flag", true));
            sender.sendMessage(sent);
            ServiceBusReceivedMessage found = take(receiver, 1).get(0);
            equal(found.getBody().toString(), "body");
            equal(found.getApplicationProperties(), sent.getApplicationProperties());
            equal(List.of(found.getMessageId(), found.getCorrelationId(), found.getSubject()), List.of("m", "c", "subject"));
            equal(found.getTimeToLive(), Duration.ofMinutes(1));
            OffsetDateTime until = receiver.renewMessageLock(found);
            equal(until.isBefore(found.getLockedUntil()), false);
            receiver.complete(found);

            ServiceBusMessageBatch batch = sender.createMessageBatch();
            List<String> expected = new ArrayList<>();
            for (int number = 0; number < 20; number++) {
                expected.add(String.valueOf(number));
                equal(batch.tryAddMessage(message(String.valueOf(number))), true);
            }
            sender.sendMessages(batch);
            List<ServiceBusReceivedMessage> all = take(receiver, 20);
            equal(bodies(all), expected);
            all.forEach(receiver::complete);
        }
    }

    private void settlement() {
        try (ServiceBusSenderClient sender = sender("-orders"); ServiceBusReceiverClient receiver = receiver("-orders")) {
            sender.sendMessages(List.of(message("a"), message("b"), message("c"), message("d")));
            List<ServiceBusReceivedMessage> four = take(receiver, 4);
            equal(bodies(four), List.of("a", "b", "c", "d"));
            receiver.complete(four.get(0));
            receiver.abandon(four.get(1), new AbandonOptions().setPropertiesToModify(Map.of("changed", "yes")));
            receiver.defer(four.get(2));
            receiver.deadLetter(four.get(3), new DeadLetterOptions().setDeadLetterReason("why").setDeadLetterErrorDescription("so"));
            ServiceBusReceivedMessage again = take(receiver, 1).get(0);
            equal(again.getBody().toString(), "b");
            equal(again.getDeliveryCount(), 1L);
            equal(again.getApplicationProperties().get("changed"), "yes");
            receiver.complete(again);
            ServiceBusReceivedMessage peeked = receiver.peekMessage(four.get(2).getSequenceNumber());
            equal(peeked.getState(), ServiceBusMessageState.DEFERRED);
            ServiceBusReceivedMessage fetched = receiver.receiveDeferredMessage(four.get(2).getSequenceNumber());
            equal(fetched.getBody().toString(), "c");
            receiver.complete(fetched);
        }
        try (ServiceBusReceiverClient dead = builder.receiver().queueName(kind + "-orders")
            .subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient()) {
            ServiceBusReceivedMessage buried = take(dead, 1).get(0);
            equal(List.of(buried.getDeadLetterReason(), buried.getDeadLetterErrorDescription()), List.of("why", "so"));
            dead.complete(buried);
        }
    }

    private void schedules() {
        try (ServiceBusSenderClient sender = sender("-orders"); ServiceBusReceiverClient receiver = receiver("-orders")) {
            OffsetDateTime soon = OffsetDateTime.now().plusSeconds(1);
            sender.scheduleMessage(message("kept"), soon);
            sender.cancelScheduledMessage(sender.scheduleMessage(message("cancelled"), soon));
            ServiceBusReceivedMessage found = take(receiver, 1).get(0);
            equal(found.getBody().toString(), "kept");
            receiver.complete(found);
        }
    }

    private void sessions() {
        try (ServiceBusSenderClient sender = sender("-sessions")) {
            sender.sendMessages(List.of(new ServiceBusMessage("a").setSessionId("s"), new ServiceBusMessage("b").setSessionId("s")));
        }
        try (var accepting = builder.sessionReceiver().queueName(kind + "-sessions").disableAutoComplete().buildClient()) {
            try (ServiceBusReceiverClient session = accepting.acceptNextSession()) {
                equal(session.getSessionId(), "s");
                List<ServiceBusReceivedMessage> two = take(session, 2);
                equal(bodies(two), List.of("a", "b"));
                two.forEach(session::complete);
                session.setSessionState("state".getBytes());
                equal(new String(session.getSessionState()), "state");
                session.renewSessionLock();
            }
            try (ServiceBusReceiverClient session = accepting.acceptSession("s")) {
                equal(new String(session.getSessionState()), "state");
            }
        }
    }

    private void rules() {
        try (var rules = builder.ruleManager().topicName(kind + "-news").subscriptionName("chosen").buildClient()) {
            rules.deleteRule("$Default");
            rules.createRule("red", new CreateRuleOptions(new SqlRuleFilter("colour = 'red'")).setAction(new SqlRuleAction("SET seen = 1")));
            rules.createRule("letters", new CreateRuleOptions(new CorrelationRuleFilter().setLabel("letter")));
            List<String> names = new ArrayList<>();
            for (RuleProperties rule : rules.listRules()) {
                names.add(rule.getName());
            }
            equal(names, List.of("letters", "red"));
        }
        try (ServiceBusSenderClient sender = builder.sender().topicName(kind + "-news").buildClient()) {
            ServiceBusMessage red = message("red");
            red.getApplicationProperties().put("colour", "red");
            sender.sendMessages(List.of(red, message("blue"), message("letter").setSubject("letter")));
        }
        try (ServiceBusReceiverClient chosen = builder.receiver().topicName(kind + "-news").subscriptionName("chosen")
            .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient()) {
            equal(bodies(take(chosen, 2)), List.of("red", "letter"));
        }
    }

    /** The sample with a partition key: sends and settlements of one entity are atomic. */
    private void transactions() {
        try (ServiceBusSenderClient sender = sender("-orders"); ServiceBusReceiverClient receiver = receiver("-orders")) {
            ServiceBusTransactionContext undone = sender.createTransaction();
            sender.sendMessage(message("undone"), undone);
            sender.rollbackTransaction(undone);
            refused(() -> sender.commitTransaction(undone));

            ServiceBusTransactionContext sends = sender.createTransaction();
            sender.sendMessage(message("first"), sends);
            sender.sendMessages(List.of(message("second"), message("third")), sends);
            equal(receiver.peekMessage(), null);
            sender.commitTransaction(sends);
            List<ServiceBusReceivedMessage> three = take(receiver, 3);
            equal(bodies(three), List.of("first", "second", "third"));

            ServiceBusTransactionContext both = receiver.createTransaction();
            receiver.complete(three.get(0), new CompleteOptions().setTransactionContext(both));
            receiver.deadLetter(three.get(1), new DeadLetterOptions().setDeadLetterReason("why").setTransactionContext(both));
            sender.sendMessage(message("answer"), both);
            receiver.commitTransaction(both);
            receiver.complete(three.get(2));
            ServiceBusReceivedMessage answer = take(receiver, 1).get(0);
            equal(answer.getBody().toString(), "answer");
            receiver.complete(answer);
        }
        try (ServiceBusReceiverClient dead = builder.receiver().queueName(kind + "-orders")
            .subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient()) {
            ServiceBusReceivedMessage buried = take(dead, 1).get(0);
            equal(buried.getBody().toString(), "second");
            dead.complete(buried);
        }
    }

    /** A partitioned entity accepts one key in a transaction, and no message without a key (B-308, B-309). The SDK does not document this. */
    private void refusedTransactions() {
        try (ServiceBusSenderClient sender = sender("-orders"); ServiceBusReceiverClient receiver = receiver("-orders")) {
            ServiceBusTransactionContext mixed = sender.createTransaction();
            sender.sendMessage(message("one"), mixed);
            sender.sendMessage(new ServiceBusMessage("keyless"), mixed);
            sender.sendMessage(new ServiceBusMessage("two").setPartitionKey("another"), mixed);
            sender.commitTransaction(mixed);
            ServiceBusReceivedMessage one = take(receiver, 1).get(0);
            equal(one.getBody().toString(), "one");
            receiver.complete(one);
            equal(receiver.peekMessage(1), null);
        }
    }

    /** The sample with sessions: the session id is the key. */
    private void sessionTransactions() {
        try (ServiceBusSenderClient sender = sender("-sessions");
            var accepting = builder.sessionReceiver().queueName(kind + "-sessions").disableAutoComplete().buildClient()) {
            ServiceBusTransactionContext sends = sender.createTransaction();
            sender.sendMessage(new ServiceBusMessage("one").setSessionId("t"), sends);
            sender.sendMessage(new ServiceBusMessage("two").setSessionId("t").setPartitionKey("t"), sends);
            sender.commitTransaction(sends);
            try (ServiceBusReceiverClient session = accepting.acceptSession("t")) {
                List<ServiceBusReceivedMessage> two = take(session, 2);
                equal(bodies(two), List.of("one", "two"));
                ServiceBusTransactionContext settles = session.createTransaction();
                for (ServiceBusReceivedMessage message : two) {
                    session.complete(message, new CompleteOptions().setTransactionContext(settles));
                }
                sender.sendMessage(new ServiceBusMessage("three").setSessionId("t"), settles);
                session.commitTransaction(settles);
                ServiceBusReceivedMessage three = take(session, 1).get(0);
                equal(three.getBody().toString(), "three");
                session.complete(three);
            }
        }
    }

    public static void main(String[] arguments) {
        for (String kind : System.getenv("OXBUS_KINDS").split(",")) {
            Suite suite = new Suite(kind);
            suite.messages();
            suite.settlement();
            suite.schedules();
            suite.sessions();
            suite.rules();
            suite.transactions();
            suite.sessionTransactions();
            if (kind.equals("partitioned")) {
                suite.refusedTransactions();
            }
            new Administration(kind).run();
            Refusals.run(kind + "-orders");
            System.out.println(kind + " ok");
        }
        System.exit(0);
    }
}
