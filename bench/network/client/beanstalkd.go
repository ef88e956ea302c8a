// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"oxbus.bench/internal/client"
)

const (
	priority = 1024
	runTime  = 60 * time.Second
	patience = 20 * time.Second
)

// One connection to beanstalkd, whose protocol has no lists: so many commands are under way at once.
type beanstalkd struct {
	conn   *beanstalk.Conn
	ids    []uint64
	bodies [][]byte
}

func newBeanstalkd(context.Context) *beanstalkd {
	return &beanstalkd{conn: client.Get(beanstalk.Dial("tcp", *client.Address))}
}

func (queue *beanstalkd) send(bodies [][]byte) {
	together(len(bodies), func(at int) { client.Get(queue.conn.Put(bodies[at], priority, 0, runTime)) })
}

func (queue *beanstalkd) receive(count int) [][]byte {
	queue.ids, queue.bodies = make([]uint64, count), make([][]byte, count)
	together(count, func(at int) {
		id, body, err := queue.conn.Reserve(patience)
		client.Check(err)
		queue.ids[at], queue.bodies[at] = id, body
	})
	return queue.bodies
}

func (queue *beanstalkd) complete() {
	together(len(queue.ids), func(at int) { client.Check(queue.conn.Delete(queue.ids[at])) })
}

func (queue *beanstalkd) close() { client.Check(queue.conn.Close()) }
