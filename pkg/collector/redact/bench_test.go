package redact

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
)

// recorded is what one node of a recorded session wrote and sent.
func recorded(b *testing.B) (events [][]byte, log []byte) {
	r := recording.Open(b)
	for _, node := range r.Nodes() {
		for _, post := range r.Posts(node) {
			for _, event := range post.Body {
				events = append(events, event)
			}
		}
	}
	for i := 0; len(log) < 4<<20; i++ {
		log = fmt.Appendf(log, "[2026-11-20 23:19:46,%03d I 4711 4711] (raylet) node_manager.cc:%d: epoch %d loss=%.4f "+
			"step time %d ms, worker %x\n", i%1000, i%900, i/100, 1/float64(i+1), i%77, i*7919)
		if i%200 == 0 {
			log = append(log, "loading the tokenizer, the password= of nobody and https://user:secret@example.com/x\n"...)
		}
	}
	return events, log
}

// BenchmarkLog redacts a log by twenty expressions; every two hundredth line matches one.
func BenchmarkLog(b *testing.B) {
	_, log := recorded(b)
	r := redactor(b, nil, manyExpressions()...)
	again := bytes.Clone(log)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		copy(again, log)
		r.Lines(again)
	}
}

// BenchmarkEvents redacts the events of a recorded session.
func BenchmarkEvents(b *testing.B) {
	events, _ := recorded(b)
	r := redactor(b, []string{"HF_TOKEN", "*_SECRET"}, manyExpressions()[2:]...)
	bytes := 0
	for _, event := range events {
		bytes += len(event)
	}
	b.SetBytes(int64(bytes))
	for b.Loop() {
		for _, event := range events {
			r.JSON(event)
		}
	}
}
