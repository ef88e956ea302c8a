// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/Azure/go-amqp"
)

const headBytes = 16

var began = time.Now()

// A body says which message it is and when it was sent; the rest is the same in all.
func message(number int, rest []byte) *amqp.Message {
	body := make([]byte, headBytes, headBytes+len(rest))
	binary.BigEndian.PutUint64(body, uint64(number))
	binary.BigEndian.PutUint64(body[8:], uint64(time.Since(began)))
	message := amqp.NewMessage(append(body, rest...))
	message.Header = &amqp.MessageHeader{Durable: *durable, Priority: 4}
	return message
}

func filler() []byte {
	return bytes.Repeat([]byte("0123456789abcdef"), *size/16+1)[:max(0, *size-headBytes)]
}

// The answers of one run: each message came once and as it was sent, and how long each took.
type tally struct {
	places chan struct{}
	mutex  sync.Mutex
	seen   []bool
	took   []float64
	rest   []byte
}

func newTally(count int) *tally {
	return &tally{seen: make([]bool, count), took: make([]float64, 0, count), rest: filler()}
}

// Notes a message; whether it was the last.
func (tally *tally) take(message *amqp.Message) bool {
	now := time.Since(began)
	found := message.GetData()
	if len(found) != headBytes+len(tally.rest) || !bytes.Equal(found[headBytes:], tally.rest) {
		check(fmt.Errorf("a body of %d bytes is not as it was sent", len(found)))
	}
	number := binary.BigEndian.Uint64(found)
	sent := time.Duration(binary.BigEndian.Uint64(found[8:]))
	if tally.places != nil {
		<-tally.places
	}
	tally.mutex.Lock()
	defer tally.mutex.Unlock()
	if number >= uint64(len(tally.seen)) || tally.seen[number] {
		check(fmt.Errorf("message %d came twice, or was never sent", number))
	}
	tally.seen[number] = true
	tally.took = append(tally.took, float64(now-sent)/1e3)
	return len(tally.took) == len(tally.seen)
}

type times struct {
	P50 float64 `json:"latency_us_p50"`
	P99 float64 `json:"latency_us_p99"`
}

func (tally *tally) times() times {
	slices.Sort(tally.took)
	if len(tally.took) != len(tally.seen) {
		check(fmt.Errorf("%d of %d messages came", len(tally.took), len(tally.seen)))
	}
	at := func(share float64) float64 { return tally.took[int(float64(len(tally.took)-1)*share)] }
	return times{at(0.5), at(0.99)}
}
