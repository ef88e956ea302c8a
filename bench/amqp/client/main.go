// SPDX-License-Identifier: Apache-2.0

// A client of any AMQP 1.0 broker.
// bench/go_client.py builds it, passes it the address of the broker, and reads the line of JSON that it prints.
package main

import (
	"context"
	"flag"

	"oxbus.bench/internal/client"
)

var (
	pairs  = flag.Int("links", 1, "connections that send, and as many that receive")
	window = flag.Int("window", 64, "sends of a link that wait for their answer, and settlements that do")
	ahead  = flag.Int("ahead", 1000, "messages at most that were sent and have not come")
	rate   = flag.Int("rate", 0, "messages per second of a link that sends; 0: as many as it can")
)

func main() {
	client.Run(map[string]func(context.Context) any{"through": through, "ping": ping, "idle": idle})
}
