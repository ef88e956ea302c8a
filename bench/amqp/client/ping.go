// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/Azure/go-amqp"
)

// Sends one message, waits until it is received and settled, then the next: no message waits behind another.
func ping(ctx context.Context) times {
	sender, receiver := sender(ctx), receiver(ctx)
	const warm = 200
	tally := newTally(*count + warm)
	for number := range *count + warm {
		answered := make(chan error, 1)
		go func() { answered <- sender.Send(ctx, amqp.NewMessage(body(number, tally.rest)), nil) }()
		message := get(receiver.Receive(ctx, nil))
		tally.take(message)
		check(receiver.AcceptMessage(ctx, message))
		check(<-answered)
	}
	tally.seen, tally.took = tally.seen[warm:], tally.took[warm:]
	return tally.times()
}
