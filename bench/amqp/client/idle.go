// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"oxbus.bench/internal/client"
	"oxbus.bench/internal/links"
)

type open struct {
	Connections int `json:"connections"`
}

// Opens connections, each with a session and a receiver that waits, until standard input ends.
func idle(ctx context.Context) any {
	for range *client.Count {
		connection := links.Connect(ctx)
		defer connection.Close(ctx)
		connection.Receiver(ctx)
	}
	fmt.Println("open")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return open{*client.Count}
}
