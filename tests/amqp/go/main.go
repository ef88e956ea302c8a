// SPDX-License-Identifier: Apache-2.0

// The unmodified azservicebus against a server of oxbus, with and without partitioned entities.
// tests/amqp/test_go.py creates the entities and passes the server's address.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var ctx, cancel = context.WithTimeout(context.Background(), 2*time.Minute)

// once turns retries off.
var once = &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}}

// check ends the program and prints its caller if err is not nil.
func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "failed: %v\n%s", err, debug.Stack())
		os.Exit(1)
	}
}

func get[T any](value T, err error) T {
	check(err)
	return value
}

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		check(fmt.Errorf("found %#v, expected %#v", found, expected))
	}
}

func text(text string) *string { return &text }

func message(body string) *azservicebus.Message {
	return &azservicebus.Message{Body: []byte(body), PartitionKey: text("k")}
}

func bodies(messages []*azservicebus.ReceivedMessage) []string {
	found := []string{}
	for _, message := range messages {
		found = append(found, string(message.Body))
	}
	return found
}

type receiver interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

func take(from receiver, count int) []*azservicebus.ReceivedMessage {
	messages := []*azservicebus.ReceivedMessage{}
	for len(messages) < count {
		messages = append(messages, get(from.ReceiveMessages(ctx, count-len(messages), nil))...)
	}
	return messages
}

// hasCondition checks that err has that AMQP condition.
func hasCondition(err error, condition string) {
	if err == nil || !strings.Contains(err.Error(), condition) {
		check(fmt.Errorf("found error %v, expected condition %s", err, condition))
	}
}

func messages(client *azservicebus.Client, queue string) {
	sender := get(client.NewSender(queue, nil))
	sent := message("body")
	sent.ApplicationProperties = map[string]any{"text": "t", "number": int64(7), "flag": true, "bytes": []byte("b")}
	sent.MessageID, sent.CorrelationID, sent.Subject = text("m"), text("c"), text("subject")
	minute := time.Minute
	sent.TimeToLive = &minute
	check(sender.SendMessage(ctx, sent, nil))
	from := get(client.NewReceiverForQueue(queue, nil))
	found := take(from, 1)[0]
	equal(string(found.Body), "body")
	equal(found.ApplicationProperties, sent.ApplicationProperties)
	equal([]string{found.MessageID, *found.CorrelationID, *found.Subject, *found.PartitionKey}, []string{"m", "c", "subject", "k"})
	equal(*found.TimeToLive, minute)
	if !found.LockedUntil.After(time.Now()) {
		check(errors.New("the lock is over"))
	}
	check(from.RenewMessageLock(ctx, found, nil))
	check(from.CompleteMessage(ctx, found, nil))

	batch := get(sender.NewMessageBatch(ctx, nil))
	expected := []string{}
	for number := range 20 {
		expected = append(expected, fmt.Sprint(number))
		check(batch.AddMessage(message(fmt.Sprint(number)), nil))
	}
	check(sender.SendMessageBatch(ctx, batch, nil))
	deleting := get(client.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}))
	equal(bodies(take(deleting, 20)), expected)
	check(deleting.Close(ctx))
	check(from.Close(ctx))
	check(sender.Close(ctx))
}

func settlement(client *azservicebus.Client, queue string) {
	sender := get(client.NewSender(queue, nil))
	for _, body := range []string{"a", "b", "c", "d"} {
		check(sender.SendMessage(ctx, message(body), nil))
	}
	from := get(client.NewReceiverForQueue(queue, nil))
	four := take(from, 4)
	equal(bodies(four), []string{"a", "b", "c", "d"})
	check(from.CompleteMessage(ctx, four[0], nil))
	changes := map[string]any{"changed": "yes"}
	check(from.AbandonMessage(ctx, four[1], &azservicebus.AbandonMessageOptions{PropertiesToModify: changes}))
	check(from.DeferMessage(ctx, four[2], nil))
	check(from.DeadLetterMessage(ctx, four[3], &azservicebus.DeadLetterOptions{Reason: text("why"), ErrorDescription: text("so")}))
	again := take(from, 1)[0]
	equal(string(again.Body), "b")
	// This SDK counts the delivery itself.
	equal(again.DeliveryCount, uint32(2))
	equal(again.ApplicationProperties["changed"], "yes")
	check(from.CompleteMessage(ctx, again, nil))
	peeked := get(from.PeekMessages(ctx, 10, nil))
	equal(bodies(peeked), []string{"c"})
	equal(peeked[0].State, azservicebus.MessageStateDeferred)
	fetched := get(from.ReceiveDeferredMessages(ctx, []int64{*four[2].SequenceNumber}, nil))
	equal(bodies(fetched), []string{"c"})
	check(from.CompleteMessage(ctx, fetched[0], nil))
	check(from.Close(ctx))
	dead := get(client.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))
	buried := take(dead, 1)[0]
	equal([]string{*buried.DeadLetterReason, *buried.DeadLetterErrorDescription}, []string{"why", "so"})
	check(dead.CompleteMessage(ctx, buried, nil))
	check(dead.Close(ctx))
	check(sender.Close(ctx))
}

func schedules(client *azservicebus.Client, queue string) {
	sender := get(client.NewSender(queue, nil))
	numbers := get(sender.ScheduleMessages(ctx, []*azservicebus.Message{message("kept"), message("cancelled")}, time.Now().Add(time.Second), nil))
	check(sender.CancelScheduledMessages(ctx, numbers[1:], nil))
	from := get(client.NewReceiverForQueue(queue, nil))
	found := take(from, 1)[0]
	equal(string(found.Body), "kept")
	check(from.CompleteMessage(ctx, found, nil))
	check(from.Close(ctx))
	check(sender.Close(ctx))
}

func sessions(client *azservicebus.Client, queue string) {
	sender := get(client.NewSender(queue, nil))
	for _, body := range []string{"a", "b"} {
		check(sender.SendMessage(ctx, &azservicebus.Message{Body: []byte(body), SessionID: text("s")}, nil))
	}
	session := get(client.AcceptNextSessionForQueue(ctx, queue, nil))
	equal(session.SessionID(), "s")
	two := take(session, 2)
	equal(bodies(two), []string{"a", "b"})
	check(session.CompleteMessage(ctx, two[0], nil))
	check(session.DeferMessage(ctx, two[1], nil))
	fetched := get(session.ReceiveDeferredMessages(ctx, []int64{*two[1].SequenceNumber}, nil))
	check(session.CompleteMessage(ctx, fetched[0], nil))
	check(session.SetSessionState(ctx, []byte("state"), nil))
	equal(string(get(session.GetSessionState(ctx, nil))), "state")
	until := session.LockedUntil()
	check(session.RenewSessionLock(ctx, nil))
	if session.LockedUntil().Before(until) {
		check(errors.New("the lock of the session ends earlier than before"))
	}
	check(session.Close(ctx))
	again := get(client.AcceptSessionForQueue(ctx, queue, "s", nil))
	equal(string(get(again.GetSessionState(ctx, nil))), "state")
	check(again.SetSessionState(ctx, nil, nil))
	check(again.Close(ctx))
	check(sender.Close(ctx))
}

func topics(client *azservicebus.Client, topic string) {
	sender := get(client.NewSender(topic, nil))
	check(sender.SendMessage(ctx, message("news"), nil))
	for _, name := range []string{"all", "chosen"} {
		from := get(client.NewReceiverForSubscription(topic, name, nil))
		found := take(from, 1)[0]
		equal(string(found.Body), "news")
		check(from.CompleteMessage(ctx, found, nil))
		check(from.Close(ctx))
	}
	check(sender.Close(ctx))
}

func main() {
	defer cancel()
	for _, kind := range strings.Split(os.Getenv("OXBUS_KINDS"), ",") {
		client := get(azservicebus.NewClientFromConnectionString(os.Getenv("OXBUS_CONNECTION_STRING"), once))
		messages(client, kind+"-orders")
		settlement(client, kind+"-orders")
		schedules(client, kind+"-orders")
		sessions(client, kind+"-sessions")
		topics(client, kind+"-news")
		administration(kind)
		nowhere := get(client.NewReceiverForSubscription(kind+"-news", "nobody", nil))
		_, err := nowhere.ReceiveMessages(ctx, 1, nil)
		hasCondition(err, "amqp:not-found")
		refusals(kind + "-orders")
		check(client.Close(ctx))
		fmt.Println(kind, "ok")
	}
}
