// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// Sends one message, waits until it is received and settled, then the next: no message waits behind another.
func ping(ctx context.Context) times {
	sender, receiver := sender(ctx), receiver(ctx)
	const warm = 200
	tally := newTally(*count + warm)
	for number := range *count + warm {
		answered := make(chan error, 1)
		go func() { answered <- sender.Send(ctx, message(number, tally.rest), nil) }()
		received := get(receiver.Receive(ctx, nil))
		tally.take(received)
		check(receiver.AcceptMessage(ctx, received))
		check(<-answered)
	}
	tally.seen, tally.took = tally.seen[warm:], tally.took[warm:]
	return tally.times()
}
