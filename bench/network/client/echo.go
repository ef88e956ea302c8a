// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"io"
	"net"

	"oxbus.bench/internal/client"
)

var trips = flag.Int("trips", 2, "round trips of a cycle with nothing behind: 2, or 3 when a receiver has to ask")

// About what an AMQP disposition takes, or the command that removes a job from beanstalkd.
const settlementBytes = 32

// The round trips of a cycle with nothing behind them: the bodies come back with the answer to the send, and as many
// settlements after them; with three, what asks for the messages goes and comes back in between.
type echo struct {
	conn   net.Conn
	buffer []byte
	bodies [][]byte
}

func newEcho(context.Context) *echo {
	return &echo{conn: client.Get(net.Dial("tcp", *client.Address))}
}

func (queue *echo) send(bodies [][]byte) {
	queue.buffer = queue.buffer[:0]
	for _, body := range bodies {
		queue.buffer = append(queue.buffer, body...)
	}
	back := make([]byte, len(queue.buffer))
	queue.trip(back)
	queue.bodies = make([][]byte, len(bodies))
	for at, body := range bodies {
		queue.bodies[at], back = back[:len(body)], back[len(body):]
	}
}

func (queue *echo) receive(int) [][]byte {
	if *trips == 3 {
		queue.buffer = queue.buffer[:settlementBytes]
		queue.trip(make([]byte, settlementBytes))
	}
	return queue.bodies
}

func (queue *echo) complete() {
	queue.buffer = queue.buffer[:settlementBytes*len(queue.bodies)]
	queue.trip(make([]byte, len(queue.buffer)))
}

// Writes the buffer, and reads as much.
func (queue *echo) trip(back []byte) {
	client.Get(queue.conn.Write(queue.buffer))
	client.Get(io.ReadFull(queue.conn, back))
}

func (queue *echo) close() { client.Check(queue.conn.Close()) }
