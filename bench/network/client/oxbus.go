// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"

	"github.com/Azure/go-amqp"

	"oxbus.bench/internal/client"
	"oxbus.bench/internal/links"
)

const listFormat = 0x80013700

// AMQP over one session. A list is sent as one transfer, as Azure's SDKs do; settlements are confirmed.
type oxbus struct {
	ctx      context.Context
	conn     *links.Connection
	sender   *amqp.Sender
	receiver *amqp.Receiver
	held     []*amqp.Message
}

func newOxbus(ctx context.Context) *oxbus {
	conn := links.Connect(ctx)
	return &oxbus{ctx: ctx, conn: conn, sender: conn.Sender(ctx), receiver: conn.Receiver(ctx)}
}

func (queue *oxbus) send(bodies [][]byte) {
	client.Check(queue.sender.Send(queue.ctx, transfer(bodies), nil))
}

func transfer(bodies [][]byte) *amqp.Message {
	if len(bodies) == 1 {
		return links.Message(bodies[0])
	}
	list := &amqp.Message{Format: listFormat, Data: make([][]byte, len(bodies))}
	for at, body := range bodies {
		list.Data[at] = client.Get(links.Message(body).MarshalBinary())
	}
	return list
}

func (queue *oxbus) receive(count int) [][]byte {
	queue.held = queue.held[:0]
	bodies := make([][]byte, 0, count)
	for range count {
		message := client.Get(queue.receiver.Receive(queue.ctx, nil))
		queue.held = append(queue.held, message)
		bodies = append(bodies, message.GetData())
	}
	return bodies
}

// The package waits for each confirmation, so that as many must wait at once.
func (queue *oxbus) complete() {
	together(len(queue.held), func(at int) { client.Check(queue.receiver.AcceptMessage(queue.ctx, queue.held[at])) })
}

func (queue *oxbus) close() { queue.conn.Close(queue.ctx) }

// Does so many things at once, and waits until all are done.
func together(count int, do func(at int)) {
	if count == 1 {
		do(0)
		return
	}
	var all sync.WaitGroup
	for at := range count {
		all.Go(func() { do(at) })
	}
	all.Wait()
}
