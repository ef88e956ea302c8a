// SPDX-License-Identifier: Apache-2.0
// The administration client of azure-messaging-servicebus: create, read, list, change and delete each kind of entity.

import com.azure.core.exception.ResourceNotFoundException;
import com.azure.core.http.HttpPipelineCallContext;
import com.azure.core.http.HttpPipelineNextPolicy;
import com.azure.core.http.HttpResponse;
import com.azure.core.http.policy.HttpPipelinePolicy;
import com.azure.core.util.UrlBuilder;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import java.net.MalformedURLException;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.stream.Collectors;
import reactor.core.publisher.Mono;

final class Administration {
    private final String kind;
    private final ServiceBusAdministrationClient client;

    Administration(String kind) {
        this.kind = kind;
        this.client = client(System.getenv("OXBUS_CONNECTION_STRING"));
    }

    static ServiceBusAdministrationClient client(String connection) {
        return new ServiceBusAdministrationClientBuilder()
            .connectionString(connection)
            .addPolicy(new ToPort(5672))
            .buildClient();
    }

    /** This client supports only the port 443; the server accepts https on each of its ports. */
    private record ToPort(int port) implements HttpPipelinePolicy {
        @Override
        public Mono<HttpResponse> process(HttpPipelineCallContext context, HttpPipelineNextPolicy next) {
            try {
                var url = UrlBuilder.parse(context.getHttpRequest().getUrl()).setPort(port).toUrl();
                context.getHttpRequest().setUrl(url);
            } catch (MalformedURLException error) {
                return Mono.error(error);
            }
            return next.process();
        }
    }

    private static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    private static void isGone(Runnable call) {
        try {
            call.run();
        } catch (ResourceNotFoundException expected) {
            return;
        }
        throw new AssertionError("it is still there");
    }

    void run() {
        queues();
        rules();
    }

    private void queues() {
        String name = kind + "-made";
        CreateQueueOptions options = new CreateQueueOptions()
            .setPartitioningEnabled(kind.equals("partitioned"))
            .setLockDuration(Duration.ofSeconds(30))
            .setMaxDeliveryCount(3)
            .setSessionRequired(true)
            .setUserMetadata("a note");
        equal(client.createQueue(name, options).isPartitioningEnabled(), kind.equals("partitioned"));
        QueueProperties found = client.getQueue(name);
        equal(found.getLockDuration(), Duration.ofSeconds(30));
        equal(found.getMaxDeliveryCount(), 3);
        equal(found.isSessionRequired(), true);
        equal(found.getUserMetadata(), "a note");
        equal(client.listQueues().stream().anyMatch(queue -> queue.getName().equals(name)), true);
        equal(client.updateQueue(found.setMaxDeliveryCount(7)).getMaxDeliveryCount(), 7);
        equal(client.getQueueRuntimeProperties(name).getTotalMessageCount(), 0L);
        equal(client.getQueueExists(name), true);
        client.deleteQueue(name);
        isGone(() -> client.getQueue(name));
    }

    private void rules() {
        String topic = kind + "-made-news";
        client.createTopic(topic, new CreateTopicOptions().setPartitioningEnabled(kind.equals("partitioned")));
        equal(client.getTopic(topic).isPartitioningEnabled(), kind.equals("partitioned"));
        client.createSubscription(topic, "red");
        equal(client.getSubscription(topic, "red").isSessionRequired(), false);
        equal(client.listSubscriptions(topic).stream().count(), 1L);
        // This client converts a parameter of any type to a string.
        SqlRuleFilter filter = new SqlRuleFilter("colour = @colour");
        filter.getParameters().put("@colour", "red");
        CreateRuleOptions options = new CreateRuleOptions(filter).setAction(new SqlRuleAction("SET seen = TRUE"));
        client.createRule(topic, "chosen", "red", options);
        RuleProperties rule = client.getRule(topic, "red", "chosen");
        equal(((SqlRuleFilter) rule.getFilter()).getSqlExpression(), filter.getSqlExpression());
        equal(((SqlRuleFilter) rule.getFilter()).getParameters(), filter.getParameters());
        equal(((SqlRuleAction) rule.getAction()).getSqlExpression(), "SET seen = TRUE");
        CorrelationRuleFilter correlation = new CorrelationRuleFilter().setLabel("s");
        correlation.getProperties().put("key", "value");
        equal(client.updateRule(topic, "red", rule.setFilter(correlation).setAction(null)).getFilter(), correlation);
        List<String> names = client.listRules(topic, "red").stream().map(RuleProperties::getName).sorted()
            .collect(Collectors.toList());
        equal(names, List.of("$Default", "chosen"));
        client.deleteRule(topic, "red", "chosen");
        client.deleteSubscription(topic, "red");
        client.deleteTopic(topic);
        isGone(() -> client.getTopic(topic));
    }
}
