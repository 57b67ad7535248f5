// Broadcasting, dead letters, order, polling and trace of the unmodified Go client; lines as the Java programs More and
// Orderly print them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func got(m *primitive.MessageExt) {
	line(object{"topic": m.Topic, "text": string(m.Body), "queueId": m.Queue.QueueId, "queueOffset": m.QueueOffset, "reconsumeTimes": m.ReconsumeTimes})
}

func tell(event string, m *primitive.MessageExt) {
	line(object{"event": event, "queueId": m.Queue.QueueId, "queueOffset": m.QueueOffset})
}

func resolver(o options) consumer.Option {
	return consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.one("namesrv", "")}))
}

type listener = func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// Consumes with the listener until SIGTERM or --timeout.
func listen(o options, f listener, more ...consumer.Option) int {
	c, err := rocketmq.NewPushConsumer(append([]consumer.Option{resolver(o), consumer.WithGroupName(o.one("group", "")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}, more...)...)
	if err == nil {
		err = c.Subscribe(o.one("topic", ""), consumer.MessageSelector{}, f)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		line(object{"error": err.Error()})
		return 1
	}
	line(object{"event": "started"})
	select {
	case <-stop:
	case <-time.After(time.Duration(o.number("timeout", "120") * 1e9)):
	}
	c.Shutdown()
	return 0
}

func broadcast(o options) int {
	return listen(o, func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range ms {
			got(m)
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumerModel(consumer.BroadCasting))
}

// Refuses everything; after so many times the message is a dead letter.
func refuse(o options) int {
	return listen(o, func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range ms {
			got(m)
		}
		if c, ok := primitive.GetConcurrentlyCtx(ctx); ok {
			c.DelayLevelWhenNextConsume = 1
		}
		return consumer.ConsumeRetryLater, nil
	}, consumer.WithMaxReconsumeTimes(int32(o.number("max", "1"))))
}

// Tells the begin and the end of each message.
func orderly(o options) int {
	pause := time.Duration(o.number("pause", "5")) * time.Millisecond
	return listen(o, func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range ms {
			tell("begin", m)
			time.Sleep(pause)
			tell("end", m)
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumerOrder(true))
}

// The pull consumer that is polled.
func lite(o options) int {
	c, err := rocketmq.NewPullConsumer(resolver(o), consumer.WithGroupName(o.one("group", "")), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err == nil {
		err = c.Subscribe(o.one("topic", ""), consumer.MessageSelector{Type: consumer.TAG, Expression: o.one("tag", "*")})
	}
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		line(object{"error": err.Error()})
		return 1
	}
	line(object{"event": "started"})
	end := time.Now().Add(time.Duration(o.number("timeout", "60") * 1e9))
	for n := 0; n < int(o.number("expect", "1")) && time.Now().Before(end); {
		r, err := c.Poll(context.Background(), 500*time.Millisecond)
		if err != nil {
			continue // nothing new, or not yet
		}
		for _, m := range r.GetMsgList() {
			got(m)
			n++
		}
		c.ACK(context.Background(), r, consumer.ConsumeSuccess)
	}
	c.Shutdown()
	return 0
}

func trace(o options) int {
	names := primitive.NewPassthroughResolver([]string{o.one("namesrv", "")})
	p, err := rocketmq.NewProducer(producer.WithNsResolver(names), producer.WithGroupName(o.one("group", "")), producer.WithRetry(2),
		producer.WithTrace(&primitive.TraceConfig{Access: primitive.Local, Resolver: names}))
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		line(object{"error": err.Error()})
		return 1
	}
	for i := 0; i < int(o.number("count", "5")); i++ {
		m := primitive.NewMessage(o.one("topic", ""), []byte(fmt.Sprintf("traced %d", i)))
		m.WithTag("TagT").WithKeys([]string{fmt.Sprintf("key%d", i)})
		r, err := p.SendSync(context.Background(), m)
		if err != nil {
			line(object{"error": err.Error()})
			return 1
		}
		status := "SEND_OK"
		if r.Status != primitive.SendOK {
			status = fmt.Sprintf("status %d", r.Status)
		}
		line(object{"status": status, "msgId": r.MsgID, "traceOn": r.TraceOn, "region": r.RegionID})
	}
	time.Sleep(7 * time.Second) // records are sent in the background, every five seconds
	p.Shutdown()
	return 0
}
