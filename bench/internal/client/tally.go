// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"
)

const headBytes = 16

var began = time.Now()

// A Tally makes the bodies of one run, and knows whether each came once and as it was sent, and how long each took.
type Tally struct {
	mutex sync.Mutex
	seen  []bool
	took  []float64
	rest  []byte
}

// NewTally is for so many messages.
func NewTally(count int) *Tally {
	rest := bytes.Repeat([]byte("0123456789abcdef"), *size/16+1)[:max(0, *size-headBytes)]
	return &Tally{seen: make([]bool, count), took: make([]float64, 0, count), rest: rest}
}

// Body says which message it is and when it was made; the rest is the same in all.
func (tally *Tally) Body(number int) []byte {
	body := make([]byte, headBytes, headBytes+len(tally.rest))
	binary.BigEndian.PutUint64(body, uint64(number))
	binary.BigEndian.PutUint64(body[8:], uint64(time.Since(began)))
	return append(body, tally.rest...)
}

// Take notes a body that came; whether it was the last.
func (tally *Tally) Take(body []byte) bool {
	now := time.Since(began)
	if len(body) != headBytes+len(tally.rest) || !bytes.Equal(body[headBytes:], tally.rest) {
		Check(fmt.Errorf("a body of %d bytes is not as it was sent", len(body)))
	}
	number := binary.BigEndian.Uint64(body)
	sent := time.Duration(binary.BigEndian.Uint64(body[8:]))
	tally.mutex.Lock()
	defer tally.mutex.Unlock()
	if number >= uint64(len(tally.seen)) || tally.seen[number] {
		Check(fmt.Errorf("message %d came twice, or was never sent", number))
	}
	tally.seen[number] = true
	tally.took = append(tally.took, float64(now-sent)/1e3)
	return len(tally.took) == len(tally.seen)
}

// Times are how long the messages took, leaving out the first ones; all must have come.
func (tally *Tally) Times(warm int) Times {
	if len(tally.took) != len(tally.seen) {
		Check(fmt.Errorf("%d of %d messages came", len(tally.took), len(tally.seen)))
	}
	return TimesOf(tally.took[warm:])
}

// Times are microseconds.
type Times struct {
	P50 float64 `json:"latency_us_p50"`
	P99 float64 `json:"latency_us_p99"`
}

// TimesOf sorts what took so many microseconds each.
func TimesOf(took []float64) Times {
	slices.Sort(took)
	at := func(share float64) float64 { return took[int(float64(len(took)-1)*share)] }
	return Times{at(0.5), at(0.99)}
}

// Rates are what went through in the time that was measured.
type Rates struct {
	Times
	Seconds    float64 `json:"seconds"`
	Throughput float64 `json:"throughput_msg_per_s"`
}

// RatesOf is for all messages of the run.
func RatesOf(took time.Duration, times Times) Rates {
	return Rates{times, took.Seconds(), float64(*Count) / took.Seconds()}
}
