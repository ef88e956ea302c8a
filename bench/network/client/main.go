// SPDX-License-Identifier: Apache-2.0

// A client of work queues over the network, each with the package that is usual for it.
// bench/go_client.py builds it, passes it the address of the server, and reads the line of JSON that it prints.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"oxbus.bench/internal/client"
)

var batch = flag.Int("batch", 1, "messages that are sent, received and completed at once")

// A queue is one connection to a server. A call returns when the server has answered all that it asked for.
type queue interface {
	send(bodies [][]byte)
	// Some of the messages that wait, at least one and at most `count`.
	receive(count int) [][]byte
	// Completes what the last `receive` gave.
	complete()
	close()
}

func main() {
	client.Run(map[string]func(context.Context) any{
		"oxbus":      cycles(newOxbus),
		"beanstalkd": cycles(newBeanstalkd),
		"redis":      cycles(newRedis),
		"echo":       cycles(newEcho),
	})
}

// Sends a batch, receives it and completes it, then the next; times are those of a whole cycle.
func cycles[Q queue](open func(context.Context) Q) func(context.Context) any {
	return func(ctx context.Context) any {
		if *client.Count%*batch != 0 {
			client.Check(fmt.Errorf("%d messages are no whole number of batches", *client.Count))
		}
		queue := open(ctx)
		defer queue.close()
		tally := client.NewTally(*client.Count)
		took := make([]float64, 0, *client.Count / *batch)
		bodies := make([][]byte, *batch)
		start := time.Now()
		for first := 0; first < *client.Count; first += *batch {
			began := time.Now()
			for at := range bodies {
				bodies[at] = tally.Body(first + at)
			}
			queue.send(bodies)
			for left := *batch; left > 0; {
				received := queue.receive(left)
				for _, body := range received {
					tally.Take(body)
				}
				queue.complete()
				left -= len(received)
			}
			took = append(took, float64(time.Since(began))/1e3)
		}
		all := time.Since(start)
		tally.Times(0)
		return client.RatesOf(all, client.TimesOf(took))
	}
}
