// SPDX-License-Identifier: Apache-2.0
// The unmodified @azure/service-bus against a server of oxbus, with and without partitioned entities.
// tests/amqp/test_node.py creates the entities and passes the server's address.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";

const connectionString = process.env.OXBUS_CONNECTION_STRING;
const WAIT = { maxWaitTimeInMs: 30_000 };
const NO_RETRY = { retryOptions: { maxRetries: 0 } };

async function take(receiver, count) {
  const messages = [];
  while (messages.length < count) {
    const found = await receiver.receiveMessages(count - messages.length, WAIT);
    assert.notEqual(found.length, 0, `${messages.length} of ${count} messages came`);
    messages.push(...found);
  }
  return messages;
}

const otherKey = connectionString.replace("SAS_KEY_VALUE", "a key of another client");
const otherName = connectionString.replace("RootManageSharedAccessKey", "nobody");
const listener = connectionString
  .replace("RootManageSharedAccessKey", "listener")
  .replace("SAS_KEY_VALUE", "a key that may listen");

// Each call to an entity fails with that code and a text that contains all the words and no key.
async function refuses(connection, entity, code, words, ways = WAYS) {
  for (const way of ways) {
    const client = new ServiceBusClient(connection, NO_RETRY);
    await assert.rejects(way(client, entity), (error) => {
      assert.equal(error.code, code, error.message);
      for (const word of words) assert.ok(error.message.includes(word), `${word} in ${error.message}`);
      for (const key of ["SAS_KEY_VALUE", "a key of"]) assert.ok(!error.message.includes(key), error.message);
      return true;
    });
    await client.close();
  }
}

const sending = (client, entity) => client.createSender(entity).sendMessages({ body: "x" });
const WAYS = [
  sending,
  (client, entity) => client.createReceiver(entity).receiveMessages(1, { maxWaitTimeInMs: 100 }),
  (client, entity) => client.createReceiver(entity).peekMessages(1),
  (client, entity) => client.createSender(entity).scheduleMessages({ body: "x" }, new Date(Date.now() + 60_000)),
  (client, entity) => client.acceptSession(entity, "s"),
];

const bodies = (messages) => messages.map((message) => message.body);

for (const kind of process.env.OXBUS_KINDS.split(",")) {
  describe(kind, () => {
    const queue = `${kind}-orders`;
    const sessions = `${kind}-sessions`;
    const topic = `${kind}-news`;
    let client;

    before(() => {
      client = new ServiceBusClient(connectionString, NO_RETRY);
    });
    after(() => client.close());

    async function send(entity, ...messages) {
      const sender = client.createSender(entity);
      for (const message of messages) await sender.sendMessages(message);
      await sender.close();
    }

    test("a message is received with all its fields", async () => {
      await send(queue, {
        body: { a: [1, "two", null] },
        applicationProperties: { text: "t", number: 7, flag: true, when: new Date(86_400_000) },
        messageId: "m",
        correlationId: "c",
        contentType: "application/json",
        subject: "subject",
        replyTo: "r",
        to: "to",
        partitionKey: "k",
        timeToLive: 60_000,
      });
      const receiver = client.createReceiver(queue);
      const [message] = await take(receiver, 1);
      assert.deepEqual(message.body, { a: [1, "two", null] });
      assert.equal(message.applicationProperties.text, "t");
      assert.equal(message.applicationProperties.number, 7);
      assert.equal(message.applicationProperties.flag, true);
      assert.equal(new Date(message.applicationProperties.when).getTime(), 86_400_000);
      assert.equal(message.messageId, "m");
      assert.equal(message.correlationId, "c");
      assert.equal(message.subject, "subject");
      assert.equal(message.partitionKey, "k");
      assert.equal(message.timeToLive, 60_000);
      assert.equal(message.deliveryCount, 0);
      assert.ok(message.lockedUntilUtc > new Date());
      await receiver.completeMessage(message);
      await receiver.close();
    });

    test("a batch arrives in order", async () => {
      const sender = client.createSender(queue);
      const batch = await sender.createMessageBatch();
      for (let number = 0; number < 20; number++) {
        assert.ok(batch.tryAddMessage({ body: number, partitionKey: "k" }));
      }
      await sender.sendMessages(batch);
      await sender.close();
      const receiver = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
      const messages = await take(receiver, 20);
      assert.deepEqual(bodies(messages), [...Array(20).keys()]);
      await receiver.close();
    });

    test("each kind of settlement has its effect", async () => {
      await send(queue, ...["a", "b", "c", "d"].map((body) => ({ body, partitionKey: "k" })));
      const receiver = client.createReceiver(queue);
      const [a, b, c, d] = await take(receiver, 4);
      await receiver.renewMessageLock(a);
      await receiver.completeMessage(a);
      await receiver.abandonMessage(b, { changed: "yes" });
      await receiver.deferMessage(c, { later: 1 });
      await receiver.deadLetterMessage(d, { deadLetterReason: "why", deadLetterErrorDescription: "so", extra: true });
      const [again] = await take(receiver, 1);
      assert.equal(again.body, "b");
      assert.equal(again.deliveryCount, 1);
      assert.equal(again.applicationProperties.changed, "yes");
      await receiver.completeMessage(again);
      const [fetched] = await receiver.receiveDeferredMessages(c.sequenceNumber);
      assert.equal(fetched.body, "c");
      assert.equal(fetched.applicationProperties.later, 1);
      await receiver.completeMessage(fetched);
      assert.deepEqual(await receiver.peekMessages(10, { fromSequenceNumber: fetched.sequenceNumber }), []);
      await receiver.close();
      const buried = client.createReceiver(queue, { subQueueType: "deadLetter" });
      const [dead] = await take(buried, 1);
      assert.equal(dead.deadLetterReason, "why");
      assert.equal(dead.deadLetterErrorDescription, "so");
      assert.equal(dead.applicationProperties.extra, true);
      await buried.completeMessage(dead);
      await buried.close();
    });

    test("a subscription to a receiver gets new messages", async () => {
      const receiver = client.createReceiver(queue);
      const seen = [];
      const all = new Promise((resolve, reject) => {
        receiver.subscribe({
          processMessage: async (message) => {
            seen.push(message.body);
            if (seen.length === 10) resolve();
          },
          processError: async ({ error }) => reject(error),
        });
      });
      await send(queue, ...[...Array(10).keys()].map((body) => ({ body })));
      await all;
      assert.deepEqual(seen.sort(), [...Array(10).keys()]);
      await receiver.close();
    });

    test("scheduled messages become active later, or never", async () => {
      const sender = client.createSender(queue);
      const [kept, cancelled] = await sender.scheduleMessages(
        [{ body: "kept", partitionKey: "k" }, { body: "cancelled", partitionKey: "k" }],
        new Date(Date.now() + 1000),
      );
      await sender.cancelScheduledMessages(cancelled);
      const receiver = client.createReceiver(queue);
      const [peeked] = await receiver.peekMessages(1, { fromSequenceNumber: kept });
      assert.equal(peeked.body, "kept");
      const [message] = await take(receiver, 1);
      assert.equal(message.body, "kept");
      await receiver.completeMessage(message);
      await assert.rejects(sender.cancelScheduledMessages(cancelled), { code: "MessageNotFound" });
      await sender.close();
      await receiver.close();
    });

    test("sessions are accepted, arrive in order, and have a state", async () => {
      await send(sessions, ...["a", "b", "c"].map((body) => ({ body, sessionId: "s" })));
      const receiver = await client.acceptNextSession(sessions);
      assert.equal(receiver.sessionId, "s");
      await assert.rejects(client.acceptSession(sessions, "s"), { code: "SessionCannotBeLocked" });
      const [a, b, c] = await take(receiver, 3);
      assert.deepEqual(bodies([a, b, c]), ["a", "b", "c"]);
      await receiver.completeMessage(a);
      await receiver.deferMessage(b);
      const [fetched] = await receiver.receiveDeferredMessages(b.sequenceNumber);
      await receiver.completeMessage(fetched);
      await receiver.completeMessage(c);
      await receiver.setSessionState({ step: 1 });
      assert.deepEqual(await receiver.getSessionState(), { step: 1 });
      const until = receiver.sessionLockedUntilUtc;
      assert.ok((await receiver.renewSessionLock()) >= until);
      await receiver.close();
      const again = await client.acceptSession(sessions, "s");
      assert.deepEqual(await again.getSessionState(), { step: 1 });
      await again.setSessionState(null);
      assert.equal(await again.getSessionState(), null);
      await again.close();
    });

    test("rules select the copies", async () => {
      const rules = client.createRuleManager(topic, "chosen");
      await rules.deleteRule("$Default");
      await rules.createRule("red", { sqlExpression: "colour = 'red'" }, { sqlExpression: "SET seen = 1" });
      await rules.createRule("letters", { subject: "letter", applicationProperties: { to: "me" } });
      const found = [];
      for await (const rule of rules.listRules()) found.push(rule);
      assert.deepEqual(found.map((rule) => rule.name), ["letters", "red"]);
      assert.equal(found[0].filter.subject, "letter");
      assert.equal(found[0].filter.applicationProperties.to, "me");
      assert.equal(found[1].filter.sqlExpression, "colour = 'red'");
      assert.equal(found[1].action.sqlExpression, "SET seen = 1");
      await assert.rejects(rules.createRule("red", { sqlExpression: "1=1" }), { code: "MessagingEntityAlreadyExists" });
      await assert.rejects(rules.deleteRule("none"), { code: "MessagingEntityNotFound" });
      await send(
        topic,
        { body: "red", applicationProperties: { colour: "red" }, partitionKey: "k" },
        { body: "blue", applicationProperties: { colour: "blue" }, partitionKey: "k" },
        { body: "letter", subject: "letter", applicationProperties: { to: "me" }, partitionKey: "k" },
      );
      const chosen = client.createReceiver(topic, "chosen", { receiveMode: "receiveAndDelete" });
      assert.deepEqual(bodies(await take(chosen, 2)), ["red", "letter"]);
      await chosen.close();
      const all = client.createReceiver(topic, "all", { receiveMode: "receiveAndDelete" });
      assert.deepEqual(bodies(await take(all, 3)), ["red", "blue", "letter"]);
      await all.close();
    });

    test("a wrong key, a wrong name and a wrong entity have different errors", async () => {
      await refuses(connectionString, "nowhere", "MessagingEntityNotFound", ["'nowhere' could not be found."]);
      const below = [`'${topic}/Subscriptions/none' could not be found.`];
      const receiving = (client) => client.createReceiver(topic, "none").receiveMessages(1, { maxWaitTimeInMs: 100 });
      await refuses(connectionString, topic, "MessagingEntityNotFound", below, [receiving]);
      for (const entity of [queue, "nowhere"]) {
        const names = [`entity=\`${entity}\``, "InvalidSignature"];
        const root = "key name=`RootManageSharedAccessKey`";
        await refuses(otherKey, entity, "UnauthorizedAccess", [...names, "check SharedAccessKey,", root]);
        await refuses(otherName, entity, "UnauthorizedAccess", [...names, "check SharedAccessKeyName", "key name=`nobody`"]);
      }
      const right = ["'Send' claim(s) are required", `entity=\`${queue}\``, "key name=`listener`"];
      await refuses(listener, queue, "UnauthorizedAccess", right, [sending]);
      const missing = { statusCode: 404, code: "MessageEntityNotFoundError", message: /'nowhere' could not be found/ };
      await assert.rejects(new ServiceBusAdministrationClient(connectionString).getQueue("nowhere"), missing);
      const wrong = { statusCode: 401, message: /check SharedAccessKey,.*key name=`RootManageSharedAccessKey`/ };
      await assert.rejects(new ServiceBusAdministrationClient(otherKey).getQueue(queue), wrong);
    });

    test("the administration client creates entities whose partitioning is fixed", async () => {
      const admin = new ServiceBusAdministrationClient(connectionString);
      const made = await admin.createQueue(`${kind}-made`, { enablePartitioning: kind === "partitioned" });
      assert.equal(made.enablePartitioning, kind === "partitioned");
      const found = await admin.getQueue(`${kind}-made`);
      assert.equal(found.enablePartitioning, kind === "partitioned");
      await assert.rejects(admin.updateQueue({ ...found, enablePartitioning: kind !== "partitioned" }));
      await admin.deleteQueue(`${kind}-made`);
      assert.equal(await admin.queueExists(`${kind}-made`), false);
    });
  });
}
