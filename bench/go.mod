module oxbus.bench

go 1.25.0

require (
	github.com/Azure/go-amqp v1.7.0
	github.com/beanstalkd/go-beanstalk v0.2.0
	github.com/redis/go-redis/v9 v9.20.1
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)
