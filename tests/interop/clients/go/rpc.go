// Request and reply of the Go client; lines as the Java program More prints them.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func rpcProducer(o options) rocketmq.Producer {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.one("namesrv", "")})),
		producer.WithGroupName(o.one("group", "")),
		producer.WithInstanceName(fmt.Sprintf("rpc-%d", time.Now().UnixNano())),
		producer.WithRetry(2))
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		panic(err)
	}
	return p
}

func request(o options) int {
	p := rpcProducer(o)
	defer p.Shutdown()
	for i := 0; i < int(o.number("count", "5")); i++ {
		m := primitive.NewMessage(o.one("topic", ""), []byte(fmt.Sprintf("request %d", i)))
		r, err := p.Request(context.Background(), 10*time.Second, m)
		if err != nil {
			line(object{"failure": err.Error()})
		} else {
			line(object{"reply": string(r.Body)})
		}
	}
	return 0
}

// Answers each request with its text in capitals.
func reply(o options) int {
	p := rpcProducer(o)
	defer p.Shutdown()
	return listen(o, func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range ms {
			answer, err := consumer.CreateReplyMessage(m, nil)
			if err == nil {
				answer.Body = []byte(strings.ToUpper(string(m.Body))) // the library forgets it
				_, err = p.SendSync(context.Background(), answer)
			}
			if err != nil {
				line(object{"replied": string(m.Body), "failure": err.Error()})
			} else {
				line(object{"replied": string(m.Body), "status": "SEND_OK"})
			}
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithGroupName(o.one("group", "")+"_consumer"))
}
