// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
)

type open struct {
	Connections int `json:"connections"`
}

// Opens connections, each with a session and a receiver that waits, until standard input ends.
func idle(ctx context.Context) open {
	for range *count {
		receiver(ctx)
	}
	fmt.Println("open")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return open{*count}
}
