// SPDX-License-Identifier: Apache-2.0

// Package links is a client of any AMQP 1.0 broker, made with go-amqp as it comes: what Azure's SDK for Go stands on.
package links

import (
	"context"
	"flag"

	"github.com/Azure/go-amqp"

	"oxbus.bench/internal/client"
)

var (
	user     = flag.String("user", "", "name for SASL PLAIN")
	password = flag.String("password", "", "password for SASL PLAIN")
	node     = flag.String("node", "", "where to send and receive")
	durable  = flag.Bool("durable", false, "ask the broker to keep messages")
	told     = flag.Bool("told", false, "settle without waiting for the broker's confirmation")
	credit   = flag.Int("credit", 256, "messages that the broker may send ahead to a link")
)

// A Connection has one session, with the links that were made in it.
type Connection struct {
	conn      *amqp.Conn
	session   *amqp.Session
	receivers []*amqp.Receiver
}

// Connect opens a connection.
func Connect(ctx context.Context) *Connection {
	options := &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(*user, *password)}
	conn := client.Get(amqp.Dial(ctx, *client.Address, options))
	return &Connection{conn: conn, session: client.Get(conn.NewSession(ctx, nil))}
}

// Sender waits for the broker to accept each message.
func (to *Connection) Sender(ctx context.Context) *amqp.Sender {
	mode := amqp.SenderSettleModeUnsettled
	return client.Get(to.session.NewSender(ctx, *node, &amqp.SenderOptions{SettlementMode: &mode}))
}

// Receiver settles and waits for the broker to say that it knows, as Azure's SDKs do; not every broker can.
func (to *Connection) Receiver(ctx context.Context) *amqp.Receiver {
	mode := amqp.ReceiverSettleModeSecond
	if *told {
		mode = amqp.ReceiverSettleModeFirst
	}
	options := &amqp.ReceiverOptions{Credit: int32(*credit), SettlementMode: &mode}
	receiver := client.Get(to.session.NewReceiver(ctx, *node, options))
	to.receivers = append(to.receivers, receiver)
	return receiver
}

// Close ends the receivers before the connection. The broker answers the end of a link in order, so it has read all
// settlements by then; a connection that ends with unread bytes is reset, and takes settlements on their way with it.
func (to *Connection) Close(ctx context.Context) {
	for _, receiver := range to.receivers {
		client.Check(receiver.Close(ctx))
	}
	client.Check(to.conn.Close())
}

// Message is one with a body, kept by the broker if `-durable` says so.
func Message(body []byte) *amqp.Message {
	message := amqp.NewMessage(body)
	message.Header = &amqp.MessageHeader{Durable: *durable, Priority: 4}
	return message
}
