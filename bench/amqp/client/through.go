// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/go-amqp"
)

type rates struct {
	times
	Seconds    float64 `json:"seconds"`
	Throughput float64 `json:"throughput_msg_per_s"`
}

// Sends and receives at the same time; ends when the settlement of the last message is confirmed.
func through(ctx context.Context) rates {
	senders, receivers := make([]*amqp.Sender, *links), make([]*amqp.Receiver, *links)
	for at := range *links {
		senders[at], receivers[at] = sender(ctx), receiver(ctx)
	}
	tally := newTally(*count)
	tally.places = make(chan struct{}, *ahead)
	var sent atomic.Int64
	receiving, received := context.WithCancel(ctx)
	defer received()
	var all sync.WaitGroup
	start := time.Now()
	for at := range *links {
		all.Go(func() { sendAll(ctx, senders[at], &sent, tally) })
		for range *window {
			all.Go(func() { settleAll(ctx, receiving, receivers[at], tally, received) })
		}
	}
	all.Wait()
	took := time.Since(start).Seconds()
	return rates{tally.times(), took, float64(*count) / took}
}

func sendAll(ctx context.Context, sender *amqp.Sender, sent *atomic.Int64, tally *tally) {
	receipts := make(chan amqp.SendReceipt, *window)
	var answered sync.WaitGroup
	answered.Go(func() {
		for receipt := range receipts {
			if state, ok := get(receipt.Wait(ctx)).(*amqp.StateAccepted); !ok {
				check(fmt.Errorf("a message was not accepted: %v", state))
			}
		}
	})
	pace := newPace(*rate)
	for {
		number := int(sent.Add(1)) - 1
		if number >= *count {
			break
		}
		pace.wait()
		tally.places <- struct{}{}
		receipts <- get(sender.SendWithReceipt(ctx, message(number, tally.rest), nil))
	}
	close(receipts)
	answered.Wait()
}

// Ends when all messages have come, over whichever link.
func settleAll(ctx, receiving context.Context, receiver *amqp.Receiver, tally *tally, received context.CancelFunc) {
	for {
		message, err := receiver.Receive(receiving, nil)
		if err != nil && receiving.Err() != nil && ctx.Err() == nil {
			return
		}
		check(err)
		if tally.take(message) {
			received()
		}
		check(receiver.AcceptMessage(ctx, message))
	}
}
