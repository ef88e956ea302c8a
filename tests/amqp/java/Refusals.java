// SPDX-License-Identifier: Apache-2.0
// A missing entity and a missing right have different reasons of azure-messaging-servicebus and different texts.

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.exception.ClientAuthenticationException;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;

final class Refusals {
    private static final String ROOT = "RootManageSharedAccessKey";
    private static final String KEY = "SAS_KEY_VALUE";
    private static final String OTHER_KEY = "a key of another client";

    private Refusals() {}

    private static String as(String name, String key) {
        return System.getenv("OXBUS_CONNECTION_STRING").replace(ROOT, name).replace(KEY, key);
    }

    private static ServiceBusClientBuilder builder(String connection) {
        return new ServiceBusClientBuilder()
            .connectionString(connection)
            .retryOptions(new AmqpRetryOptions().setMaxRetries(0));
    }

    private static void send(String connection, String entity) {
        try (var sender = builder(connection).sender().queueName(entity).buildClient()) {
            sender.sendMessage(new ServiceBusMessage("x"));
        }
    }

    private static void receive(String connection, String entity) {
        // The synchronous client has a different text.
        try (var receiver = builder(connection).receiver().queueName(entity).disableAutoComplete().buildAsyncClient()) {
            receiver.receiveMessages().blockFirst(Duration.ofSeconds(30));
        }
    }

    private static void browse(String connection, String entity) {
        try (var receiver = builder(connection).receiver().queueName(entity).disableAutoComplete().buildClient()) {
            receiver.peekMessage();
        }
    }

    private static void hasWords(Throwable refused, List<String> words) {
        String text = refused.toString();
        for (String word : words) {
            if (!text.contains(word)) {
                throw new AssertionError("expected " + word + " in " + text, refused);
            }
        }
        for (String key : List.of(KEY, "a key of")) {
            if (text.contains(key)) {
                throw new AssertionError("a key is shown: " + text);
            }
        }
    }

    private static void refuses(Runnable call, ServiceBusFailureReason reason, List<String> words) {
        try {
            call.run();
        } catch (ServiceBusException refused) {
            if (!refused.getReason().equals(reason)) {
                throw new AssertionError("found " + refused.getReason() + ", expected " + reason, refused);
            }
            hasWords(refused, words);
            return;
        }
        throw new AssertionError("the call was not refused");
    }

    private static <E extends HttpResponseException> void refuses(
            Consumer<ServiceBusAdministrationClient> call, String connection, Class<E> kind, List<String> words) {
        try {
            call.accept(Administration.client(connection));
        } catch (HttpResponseException refused) {
            if (!kind.isInstance(refused)) {
                throw new AssertionError("expected a " + kind, refused);
            }
            hasWords(refused, words);
            return;
        }
        throw new AssertionError("the call was not refused");
    }

    private static void refusesAll(String connection, String entity, ServiceBusFailureReason reason, List<String> words) {
        refuses(() -> send(connection, entity), reason, words);
        refuses(() -> receive(connection, entity), reason, words);
        refuses(() -> browse(connection, entity), reason, words);
    }

    static void run(String queue) {
        var missing = List.of("'nowhere' could not be found.");
        refusesAll(as(ROOT, KEY), "nowhere", ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, missing);
        for (String entity : List.of(queue, "nowhere")) {
            var ofKey = List.of("InvalidSignature", "check SharedAccessKey,", "`" + entity + "`", "key name=`" + ROOT + "`");
            refusesAll(as(ROOT, OTHER_KEY), entity, ServiceBusFailureReason.UNAUTHORIZED, ofKey);
            var ofName = List.of("InvalidSignature", "check SharedAccessKeyName", "`" + entity + "`", "key name=`nobody`");
            refusesAll(as("nobody", KEY), entity, ServiceBusFailureReason.UNAUTHORIZED, ofName);
        }
        var right = List.of("'Send' claim(s) are required", "entity=`" + queue + "`", "key name=`listener`");
        refuses(() -> send(as("listener", "a key that may listen"), queue), ServiceBusFailureReason.UNAUTHORIZED, right);
        refuses(client -> client.getQueue("nowhere"), as(ROOT, KEY), ResourceNotFoundException.class, missing);
        var wrong = List.of("check SharedAccessKey,", "entity=`" + queue + "`", "key name=`" + ROOT + "`");
        refuses(client -> client.getQueue(queue), as(ROOT, OTHER_KEY), ClientAuthenticationException.class, wrong);
    }
}
