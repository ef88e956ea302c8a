// SPDX-License-Identifier: Apache-2.0

// A client of any AMQP 1.0 broker, made with go-amqp as it comes: what Azure's own SDK for Go stands on.
// bench/compare_amqp.py builds it, tells it where the broker is, and reads the line of JSON that it prints.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/Azure/go-amqp"
)

var (
	mode     = flag.String("mode", "through", "through, ping or idle")
	address  = flag.String("address", "", "URL of the broker")
	user     = flag.String("user", "", "name for SASL PLAIN")
	password = flag.String("password", "", "password for SASL PLAIN")
	node     = flag.String("node", "", "where to send and receive")
	count    = flag.Int("count", 100_000, "messages, or connections")
	size     = flag.Int("size", 1024, "bytes of a body")
	links    = flag.Int("links", 1, "connections that send, and as many that receive")
	window   = flag.Int("window", 64, "sends of a link that wait for their answer, and settlements that do")
	ahead    = flag.Int("ahead", 1000, "messages at most that were sent and have not come")
	rate     = flag.Int("rate", 0, "messages per second of a link that sends; 0: as many as it can")
	durable  = flag.Bool("durable", false, "ask the broker to keep messages")
	told     = flag.Bool("told", false, "settle without waiting for the broker to confirm it")
	credit   = flag.Int("credit", 256, "messages that the broker may send ahead to a link")
	seconds  = flag.Int("seconds", 120, "when to give up")
)

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

func session(ctx context.Context) (*amqp.Conn, *amqp.Session) {
	options := &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(*user, *password)}
	conn := get(amqp.Dial(ctx, *address, options))
	return conn, get(conn.NewSession(ctx, nil))
}

// The receiver settles and waits for the broker to say that it knows, as Azure's SDKs do; not every broker can.
func receiver(ctx context.Context) *amqp.Receiver {
	_, session := session(ctx)
	mode := amqp.ReceiverSettleModeSecond
	if *told {
		mode = amqp.ReceiverSettleModeFirst
	}
	options := &amqp.ReceiverOptions{Credit: int32(*credit), SettlementMode: &mode}
	return get(session.NewReceiver(ctx, *node, options))
}

func sender(ctx context.Context) *amqp.Sender {
	_, session := session(ctx)
	mode := amqp.SenderSettleModeUnsettled
	return get(session.NewSender(ctx, *node, &amqp.SenderOptions{SettlementMode: &mode}))
}

func main() {
	flag.Parse()
	// A body is garbage as soon as it was sent or compared: collecting it more rarely leaves the processor to the brokers.
	debug.SetGCPercent(800)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
	defer cancel()
	var found any
	switch *mode {
	case "through":
		found = through(ctx)
	case "ping":
		found = ping(ctx)
	case "idle":
		found = idle(ctx)
	default:
		check(fmt.Errorf("no mode is named %q: through, ping or idle", *mode))
	}
	check(json.NewEncoder(os.Stdout).Encode(found))
}
