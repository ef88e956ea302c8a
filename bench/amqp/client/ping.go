// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"oxbus.bench/internal/client"
	"oxbus.bench/internal/links"
)

// Sends one message, waits until it is received and settled, then the next: no message waits behind another.
func ping(ctx context.Context) any {
	to, from := links.Connect(ctx), links.Connect(ctx)
	defer to.Close(ctx)
	defer from.Close(ctx)
	sender, receiver := to.Sender(ctx), from.Receiver(ctx)
	const warm = 200
	tally := client.NewTally(*client.Count + warm)
	for number := range *client.Count + warm {
		answered := make(chan error, 1)
		go func() { answered <- sender.Send(ctx, links.Message(tally.Body(number)), nil) }()
		received := client.Get(receiver.Receive(ctx, nil))
		tally.Take(received.GetData())
		client.Check(receiver.AcceptMessage(ctx, received))
		client.Check(<-answered)
	}
	return tally.Times(warm)
}
