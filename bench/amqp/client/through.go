// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/go-amqp"

	"oxbus.bench/internal/client"
	"oxbus.bench/internal/links"
)

// A run of messages that are sent and received at the same time.
type run struct {
	tally  *client.Tally
	places chan struct{}
	sent   atomic.Int64
}

// Ends when the settlement of the last message is confirmed.
func through(ctx context.Context) any {
	senders, receivers := make([]*amqp.Sender, *pairs), make([]*amqp.Receiver, *pairs)
	for at := range *pairs {
		to, from := links.Connect(ctx), links.Connect(ctx)
		defer to.Close(ctx)
		defer from.Close(ctx)
		senders[at], receivers[at] = to.Sender(ctx), from.Receiver(ctx)
	}
	run := &run{tally: client.NewTally(*client.Count), places: make(chan struct{}, *ahead)}
	receiving, received := context.WithCancel(ctx)
	defer received()
	var all sync.WaitGroup
	start := time.Now()
	for at := range *pairs {
		all.Go(func() { run.sendAll(ctx, senders[at]) })
		for range *window {
			all.Go(func() { run.settleAll(ctx, receiving, receivers[at], received) })
		}
	}
	all.Wait()
	return client.RatesOf(time.Since(start), run.tally.Times(0))
}

func (run *run) sendAll(ctx context.Context, sender *amqp.Sender) {
	receipts := make(chan amqp.SendReceipt, *window)
	var answered sync.WaitGroup
	answered.Go(func() {
		for receipt := range receipts {
			if state, ok := client.Get(receipt.Wait(ctx)).(*amqp.StateAccepted); !ok {
				client.Check(fmt.Errorf("a message was not accepted: %v", state))
			}
		}
	})
	pace := newPace(*rate)
	for {
		number := int(run.sent.Add(1)) - 1
		if number >= *client.Count {
			break
		}
		pace.wait()
		run.places <- struct{}{}
		message := links.Message(run.tally.Body(number))
		receipts <- client.Get(sender.SendWithReceipt(ctx, message, nil))
	}
	close(receipts)
	answered.Wait()
}

// Ends when all messages have come, over whichever link.
func (run *run) settleAll(ctx, receiving context.Context, receiver *amqp.Receiver, received context.CancelFunc) {
	for {
		message, err := receiver.Receive(receiving, nil)
		if err != nil && receiving.Err() != nil && ctx.Err() == nil {
			return
		}
		client.Check(err)
		if run.tally.Take(message.GetData()) {
			received()
		}
		<-run.places
		client.Check(receiver.AcceptMessage(ctx, message))
	}
}
