// Transactions of the unmodified Go client; see ../README.md for the command line and the output.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

type transactions struct {
	decide, answer string
	hold           time.Duration
}

func state(list string, n int) primitive.LocalTransactionState {
	words := strings.Split(list, ",")
	switch words[n%len(words)] {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnkonwnState
}

func (t *transactions) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	n, _ := strconv.Atoi(m.GetProperty("i"))
	line(object{"event": "half", "n": n})
	time.Sleep(t.hold)
	return state(t.decide, n)
}

func (t *transactions) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	n, _ := strconv.Atoi(m.GetProperty("i"))
	line(object{"event": "check", "n": n, "checks": m.GetProperty("TRANSACTION_CHECK_TIMES"), "topic": m.Topic, "transactionId": m.TransactionId, "length": len(m.Body)})
	return state(t.answer, n)
}

func transact(o options) int {
	t := &transactions{o.one("decide", "unknown"), o.one("answer", "unknown"), time.Duration(o.number("hold", "0")) * time.Millisecond}
	p, err := rocketmq.NewTransactionProducer(t,
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.one("namesrv", "")})),
		producer.WithGroupName(o.one("group", "")),
		producer.WithRetry(1))
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		line(object{"error": err.Error()})
		return 1
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	for n := 0; n < int(o.number("count", "0")); n++ {
		m := primitive.NewMessage(o.one("topic", ""), []byte(fmt.Sprintf("transaction %d", n)))
		m.WithTag("TagT").WithKeys([]string{fmt.Sprintf("key-%d", n)})
		m.WithProperty("i", strconv.Itoa(n))
		r, err := p.SendMessageInTransaction(context.Background(), m)
		if err != nil {
			line(object{"n": n, "error": err.Error()})
			continue
		}
		status := "SEND_OK"
		if r.Status != primitive.SendOK {
			status = fmt.Sprintf("status %d", r.Status)
		}
		line(object{"n": n, "status": status, "state": fmt.Sprint(r.State), "msgId": r.MsgID, "offsetMsgId": r.OffsetMsgID, "queueOffset": r.QueueOffset})
	}
	line(object{"event": "started"})
	select {
	case <-stop:
	case <-time.After(time.Duration(o.number("timeout", "60") * 1e9)):
	}
	p.Shutdown()
	line(object{"event": "end"})
	return 0
}
