// SPDX-License-Identifier: Apache-2.0

// Package client is what all clients of these benches have in common: flags, bodies that tell their number, the check
// that each came once, and a line of JSON at the end.
package client

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

var (
	mode = flag.String("mode", "", "what to do; a wrong word lists them")
	// Address is where the server listens.
	Address = flag.String("address", "", "URL of a broker, host and port of another server")
	// Count is how many messages go through, or how many connections are opened.
	Count   = flag.Int("count", 100_000, "messages, or connections")
	size    = flag.Int("size", 1024, "bytes of a body")
	seconds = flag.Int("seconds", 120, "when to give up")
)

// Run does what `-mode` says and prints what it found; a failure ends the program with a reason.
func Run(modes map[string]func(context.Context) any) {
	flag.Parse()
	// A body is garbage as soon as it was sent or compared: collecting it more rarely leaves the processor to the servers.
	debug.SetGCPercent(800)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
	defer cancel()
	run, known := modes[*mode]
	if !known {
		names := make([]string, 0, len(modes))
		for name := range modes {
			names = append(names, name)
		}
		slices.Sort(names)
		Check(fmt.Errorf("no mode is named %q: %s", *mode, strings.Join(names, ", ")))
	}
	Check(json.NewEncoder(os.Stdout).Encode(run(ctx)))
}

// Check ends the program when there is an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "failed: %v\n%s", err, debug.Stack())
		os.Exit(1)
	}
}

// Get is a value that came without an error.
func Get[T any](value T, err error) T {
	Check(err)
	return value
}

// Expect ends the program when a count is not what it has to be.
func Expect(what string, found, wanted int) {
	if found != wanted {
		Check(fmt.Errorf("%s: %d, not %d", what, found, wanted))
	}
}
