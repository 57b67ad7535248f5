// The unmodified Go client driven by the interop harness; see ../README.md for the protocol.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type object map[string]interface{}

var output sync.Mutex

func line(o object) {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

type options map[string][]string

func (o options) one(name, otherwise string) string {
	if v, ok := o[name]; ok {
		return v[0]
	}
	return otherwise
}

func (o options) number(name, otherwise string) float64 {
	n, err := strconv.ParseFloat(o.one(name, otherwise), 64)
	if err != nil {
		panic(err)
	}
	return n
}

func decode(s string) string {
	d, err := url.PathUnescape(s)
	if err != nil {
		panic(err)
	}
	return d
}

func body(spec string) []byte {
	p := strings.SplitN(spec, ":", 3)
	if p[0] == "text" {
		return []byte(decode(p[1]))
	}
	n, _ := strconv.Atoi(p[1])
	seed, _ := strconv.Atoi(p[2])
	out := make([]byte, n)
	if p[0] == "rep" {
		for i := range out {
			out[i] = byte('a' + (seed+i)%26)
		}
		return out
	}
	x := uint32(seed)*0x9E3779B1 | 1
	for i := range out {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		out[i] = byte(x)
	}
	return out
}

func messages(o options) []*primitive.Message {
	var out []*primitive.Message
	if file := o.one("messages", ""); file != "" {
		f, err := os.Open(file)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			p := strings.SplitN(lines.Text(), "\t", 5)
			m := primitive.NewMessage(p[0], body(p[4]))
			if p[1] != "" {
				m.WithTag(decode(p[1]))
			}
			if p[2] != "" {
				m.WithKeys(strings.Split(decode(p[2]), " "))
			}
			for _, pair := range strings.Split(p[3], "&") {
				if i := strings.Index(pair, "="); i > 0 {
					m.WithProperty(decode(pair[:i]), decode(pair[i+1:]))
				}
			}
			out = append(out, m)
		}
		return out
	}
	for i := 0; i < int(o.number("count", "1")); i++ {
		m := primitive.NewMessage(o.one("topic", ""), body(fmt.Sprintf("rnd:%s:%d", o.one("size", "64"), i)))
		m.WithTag("TagA").WithKeys([]string{fmt.Sprintf("key-%d", i)})
		m.WithProperty("i", strconv.Itoa(i))
		out = append(out, m)
	}
	return out
}

func produce(o options) int {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.one("namesrv", "")})),
		producer.WithGroupName(o.one("group", "interop-producer")),
		producer.WithSendMsgTimeout(10*time.Second),
		producer.WithRetry(2))
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		line(object{"error": err.Error()})
		return 1
	}
	failed := 0
	if o.one("batch", "") != "" {
		r, err := p.SendSync(context.Background(), messages(o)...)
		if err != nil {
			line(object{"n": 0, "error": err.Error()})
			return 1
		}
		line(object{"n": 0, "status": "SEND_OK", "msgId": r.MsgID, "offsetMsgId": r.OffsetMsgID})
		p.Shutdown()
		return 0
	}
	for n, m := range messages(o) {
		r, err := p.SendSync(context.Background(), m)
		if err != nil {
			failed++
			line(object{"n": n, "topic": m.Topic, "error": err.Error()})
		} else {
			status := "SEND_OK"
			if r.Status != primitive.SendOK {
				status = fmt.Sprintf("status %d", r.Status)
			}
			line(object{"n": n, "status": status, "msgId": r.MsgID, "offsetMsgId": r.OffsetMsgID, "topic": m.Topic,
				"queueId": r.MessageQueue.QueueId, "queueOffset": r.QueueOffset})
		}
		time.Sleep(time.Duration(o.number("interval", "0")) * time.Millisecond)
	}
	p.Shutdown()
	if failed > 0 {
		return 1
	}
	return 0
}

func received(m *primitive.MessageExt) object {
	o := object{"topic": m.Topic, "msgId": m.MsgId, "tags": nil, "keys": nil, "props": m.GetProperties(), "length": len(m.Body),
		"sha256": fmt.Sprintf("%x", sha256.Sum256(m.Body)), "queueId": m.Queue.QueueId, "queueOffset": m.QueueOffset, "reconsumeTimes": m.ReconsumeTimes}
	if m.GetTags() != "" {
		o["tags"] = m.GetTags()
	}
	if m.GetKeys() != "" {
		o["keys"] = m.GetKeys()
	}
	return o
}

func consume(o options) int {
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.one("namesrv", "")})),
		consumer.WithGroupName(o.one("group", "")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		line(object{"error": err.Error()})
		return 1
	}
	var got, last int64
	last = time.Now().UnixNano()
	selector := consumer.MessageSelector{}
	if tag := o.one("tag", "*"); tag != "*" {
		selector = consumer.MessageSelector{Type: consumer.TAG, Expression: tag}
	}
	if sql := o.one("sql", ""); sql != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: sql}
	}
	for _, topic := range o["topic"] {
		err = c.Subscribe(topic, selector, func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			again := false
			for _, m := range ms {
				again = again || (m.GetProperty("fail") != "" && m.ReconsumeTimes == 0)
				line(received(m))
				atomic.AddInt64(&got, 1)
				atomic.StoreInt64(&last, time.Now().UnixNano())
			}
			if again {
				return consumer.ConsumeRetryLater, nil
			}
			return consumer.ConsumeSuccess, nil
		})
		if err != nil {
			line(object{"error": err.Error()})
			return 1
		}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	if err = c.Start(); err != nil {
		line(object{"error": err.Error()})
		return 1
	}
	line(object{"event": "started"})
	expect := int64(o.number("expect", "0"))
	quiet := int64(o.number("quiet", "1") * 1e9)
	end := time.Now().Add(time.Duration(o.number("timeout", "60") * 1e9))
	for running := true; running && time.Now().Before(end); {
		select {
		case <-stop:
			running = false
		case <-time.After(20 * time.Millisecond):
			if expect > 0 && atomic.LoadInt64(&got) >= expect && time.Now().UnixNano()-atomic.LoadInt64(&last) >= quiet {
				running = false
			}
		}
	}
	c.Shutdown()
	line(object{"event": "end", "count": atomic.LoadInt64(&got)})
	if expect > 0 && atomic.LoadInt64(&got) < expect {
		return 1
	}
	return 0
}

func main() {
	rlog.SetLogLevel("fatal")
	o := options{}
	for i := 2; i+1 < len(os.Args); i += 2 {
		name := strings.TrimPrefix(os.Args[i], "--")
		o[name] = append(o[name], os.Args[i+1])
	}
	actions := map[string]func(options) int{"produce": produce, "consume": consume, "request": request, "reply": reply, "transact": transact,
		"broadcast": broadcast, "refuse": refuse, "orderly": orderly, "lite": lite, "trace": trace}
	os.Exit(actions[os.Args[1]](o))
}
