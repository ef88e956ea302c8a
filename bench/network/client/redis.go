// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"oxbus.bench/internal/client"
)

const (
	stream = "bench"
	group  = "receivers"
	field  = "b"
)

// A stream with a consumer group. Sends and completions of many are one round trip; a completed entry is deleted.
type streams struct {
	ctx  context.Context
	conn *redis.Client
	ids  []string
}

func newRedis(ctx context.Context) *streams {
	queue := &streams{ctx: ctx, conn: redis.NewClient(&redis.Options{Addr: *client.Address, PoolSize: 1})}
	if client.Get(queue.conn.Exists(ctx, stream).Result()) == 0 {
		client.Check(queue.conn.XGroupCreateMkStream(ctx, stream, group, "0").Err())
	}
	return queue
}

func (queue *streams) send(bodies [][]byte) {
	if len(bodies) == 1 {
		client.Check(queue.conn.XAdd(queue.ctx, entry(bodies[0])).Err())
		return
	}
	pipeline := queue.conn.Pipeline()
	for _, body := range bodies {
		pipeline.XAdd(queue.ctx, entry(body))
	}
	client.Get(pipeline.Exec(queue.ctx))
}

func entry(body []byte) *redis.XAddArgs {
	return &redis.XAddArgs{Stream: stream, Values: []any{field, body}}
}

func (queue *streams) receive(count int) [][]byte {
	asked := &redis.XReadGroupArgs{
		Group: group, Consumer: "receiver", Streams: []string{stream, ">"}, Count: int64(count), Block: 20 * time.Second,
	}
	entries := client.Get(queue.conn.XReadGroup(queue.ctx, asked).Result())[0].Messages
	queue.ids = queue.ids[:0]
	bodies := make([][]byte, 0, len(entries))
	for _, entry := range entries {
		queue.ids = append(queue.ids, entry.ID)
		bodies = append(bodies, []byte(entry.Values[field].(string)))
	}
	return bodies
}

func (queue *streams) complete() {
	pipeline := queue.conn.Pipeline()
	acknowledged := pipeline.XAck(queue.ctx, stream, group, queue.ids...)
	deleted := pipeline.XDel(queue.ctx, stream, queue.ids...)
	client.Get(pipeline.Exec(queue.ctx))
	for _, found := range []*redis.IntCmd{acknowledged, deleted} {
		client.Expect("entries completed", int(found.Val()), len(queue.ids))
	}
}

func (queue *streams) close() { client.Check(queue.conn.Close()) }
