package logline

import (
	"testing"
	"time"
)

// TestForms: lines in forms of libraries that are not easily installed, as their own documentation and public logs have
// them, and lines that look like headers and are none.
func TestForms(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 5, 0, time.UTC)
	clock := &Clock{From: at.Add(-time.Hour).UnixNano(), To: at.Add(time.Hour).UnixNano()}
	for _, c := range []struct {
		line  string
		level Level
		dated bool
	}{
		{"[2026-11-20 10:00:05,581 E 123 456] (raylet) main.cc:1: started", Error, true},
		{"2026-11-20 10:00:05,581\tERROR head.py:1 -- x", Error, true},
		{"ERROR 2026-11-20 10:00:05,581 controller 123 -- x", Error, true},
		{"ERROR 2026-11-20 10:00:05,581 default_app 3fd 123 -- x", Error, true},
		{"\x1b[36m(f pid=1, ip=1.2.3.4)\x1b[0m 2026-11-20 10:00:05,581\tERROR head.py:1 -- x", Error, true},
		{"(MapWorker(MapBatches(f)) pid=1) ERROR:root:needle [repeated 3x across cluster]", Error, false},
		{"ERROR:root:needle", Error, false},
		{"\xff\xfe ERROR x", Unknown, false},
		{"2026-11-20 10:00:05.000 | ERROR    | __main__:f:2 - needle", Error, true},
		{"2026-11-20 10:00:05,000 - train - ERROR - needle", Error, true},
		{"[2026-11-20 10:00:05,000] [ERROR] needle", Error, true},
		{"ERROR 11-20 10:00:05 [core.py:2] needle", Error, true},
		{"(EngineCore pid=123) ERROR 11-20 10:00:05 [core.py:2] needle", Error, true},
		{"[2026-11-20 10:00:05 TP0] Prefill batch. ERROR", Unknown, true},
		{"[rank0]:[E1120 10:00:05.123456789 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog", Error, true},
		{"E206 is a code of ours", Unknown, false},
		{"[rank0]:W1120 10:00:05.123000 123 torch/x.py:1] warn", Warning, true},
		{"[default0]:[rank0]: Traceback (most recent call last):", Unknown, false},
		{"[W socket.cpp:1] [c10d] The client", Warning, false},
		{"I0000 00:00:1795168805.123456  123 cuda_dnn.cc:1] ok", Info, true},
		{"E1120 10:00:05.123456 140000 file.py:1] x", Error, true},
		{"E0020 10:00:05.123456 no month has this number", Unknown, true},
		{"2026-11-20 10:00:05.123456: E tensorflow/x.cc:123] msg", Error, true},
		{"WARNING:tensorflow:x", Warning, false},
		{"WARNING:2026-11-20 10:00:05,123:jax._src.xla_bridge:794: x", Warning, true},
		{"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR", Warning, false},
		{"host-1:123:456 [0] NCCL WARN Call to x", Warning, false},
		{"host-1:123:456 [0] transport/net.cc:12 NCCL WARN Call to x", Warning, false},
		{"[2026-11-20 10:00:05,123] [INFO] [logging.py:96:log_dist] [Rank 0] msg", Info, true},
		{"[10:00:05] WARNING: /workspace/src/learner.cc:123: msg", Warning, true},
		{"[LightGBM] [Warning] msg", Warning, false},
		{"/a/b/x.py:12: UserWarning: msg", Warning, false},
		{"INFO:     127.0.0.1:1234 - \"GET / HTTP/1.1\" 200 OK", Info, false},
		{"ERROR:    Exception in ASGI application", Error, false},
		{"[2026-11-20 10:00:05 +0000] [123] [ERROR] x", Error, true},
		{"2026-11-20 10:00:05 [error    ] needle   k=1", Error, true},
		{"2026-11-20T10:00:05.123456Z [error    ] needle   k=1", Error, true},
		{"26/11/20 10:00:05 ERROR SparkContext: x", Error, true},
		{"10:00:05.123 [main] ERROR com.foo.Bar - x", Error, true},
		{"2026-11-20T10:00:05.123Z  ERROR 123 --- [main] c.e.Foo : x", Error, true},
		{"2026-11-20T10:00:05.123+00:00  ERROR 123 --- [           main] c.e.Foo : x", Error, true},
		{"2026/11/20 10:00:05 ERROR x k=v", Error, true},
		{"2026/11/20 10:00:05 x happened ERROR", Unknown, true},
		{"time=2026-11-20T10:00:05.000Z level=ERROR msg=needle", Error, true},
		{"time=\"2026-11-20T10:00:05Z\" level=error msg=needle", Error, true},
		{"ERRO[0005] needle", Error, false},
		{"2026-11-20T10:00:05.000Z\tERROR\tcaller/x.go:1\tmsg", Error, true},
		{"2026-11-20T10:00:05.000Z\terror\tcaller/x.go:1\tmsg", Error, true},
		{"{\"level\":\"error\",\"ts\":1795168805.123,\"msg\":\"x\"}", Error, true},
		{"{\"level\":\"error\",\"time\":1795168805,\"msg\":\"x\"}", Error, true},
		{"10:00AM ERR needle k=v", Error, true},
		{"2026-11-20T10:00:05Z ERR needle k=v", Error, true},
		{"[2026-11-20T10:00:05Z ERROR mycrate] x", Error, true},
		{"2026-11-20T10:00:05.123456Z ERROR mycrate::x: x", Error, true},
		{"  2026-11-20T10:00:05.123456Z ERROR mycrate::x: x", Error, true},
		{"[11/20/26 10:00:05] ERROR    needle     x.py:1", Error, true},
		{"                    ERROR    needle     x.py:1", Error, false},
		{"   ERROR needle", Error, false},
		{"Nov 20 10:00:05 host app[123]: ERROR x", Error, true},
		{"<11>1 2026-11-20T10:00:05.123Z host app 123 ID - msg", Error, true},
		{"<11>Nov 20 10:00:05 host app: msg", Error, true},
		{"{\"severity\":\"ERROR\",\"message\":\"x\",\"time\":\"2026-11-20T10:00:05Z\"}", Error, true},
		{"{\"@timestamp\":\"2026-11-20T10:00:05.123Z\",\"log.level\":\"error\",\"message\":\"x\"}", Error, true},
		{"{\"@timestamp\":\"2026-11-20T10:00:05.123Z\",\"log\":{\"level\":\"error\"},\"message\":\"x\"}", Error, true},
		{"{\"name\":\"x\",\"pid\":1,\"level\":50,\"msg\":\"x\",\"time\":\"2026-11-20T10:00:05.123Z\",\"v\":0}", Error,
			true},
		{"{\"level\":50,\"time\":1795168805123,\"msg\":\"x\"}", Error, true},
		{"{\"text\": \"2026\", \"record\": {\"elapsed\": {\"repr\": \"0\", \"seconds\": 0.1}, \"level\": {\"icon\": \"x\", \"name\": \"ERROR\", \"no\": 40}, \"message\": \"x\", \"time\": {\"repr\": \"2026-11-20 10:00:05.123456+00:00\", \"timestamp\": 1795168805.123456}}}", Error, true},
		{"{\"instant\":{\"epochSecond\":1795168805,\"nanoOfSecond\":581000000},\"level\":\"ERROR\",\"message\":\"x\"}",
			Error, true},
		{"{\"asctime\":\"2026-11-20 10:00:05,000\",\"levelname\":\"E\",\"message\":\"(raylet) needle\"}", Error, true},
		{"{\n  \"body\": \"x\",\n  \"severity_number\": 17,\n  \"severity_text\": \"ERROR\",\n  \"attributes\": {},\n  \"timestamp\": \"2026-11-20T10:00:05.123456Z\"\n}", Error, true},
		{"{\"loss\": 0.1, \"time\": 12.5, \"level\": 3}", Unknown, false},
		{"{\"msg\":\"he said \\\"level\\\":\\\"error\\\"\"}", Unknown, false},
		{"{\"log\":\"ERROR:root:x\\n\",\"stream\":\"stderr\",\"time\":\"2026-11-20T10:00:05.123Z\"}", Error, true},
		{"{\"t\":{\"$date\":\"2026-11-20T10:00:05.123+00:00\"},\"s\":\"E\",\"c\":\"NETWORK\",\"msg\":\"x\"}", Error,
			true},
		{"2026-11-20T10:00:05.123456789Z stderr F ERROR:root:needle", Error, true},
		{"2026-11-20T10:00:05.123456789Z stderr F {\"level\":\"error\",\"msg\":\"x\"}", Error, true},
		{"[WARNING|modeling_utils.py:1] 2026-11-20 10:00:05,123 >> msg", Warning, true},
		{"11/20/2026 10:00:05 - ERROR - __main__ - x", Error, true},
		{"2026-11-20 10:00:05 host root[123] ERROR needle", Error, true},
		{"[2026-11-20 10:00:05,123: ERROR/MainProcess] needle", Error, true},
		{"[2026-11-20T10:00:05.123+0000] {file.py:1} ERROR - needle", Error, true},
		{"10:00:05.123 | ERROR   | Flow run 'x' - needle", Error, true},
		{"2026/11/20 10:00:05 ERROR mlflow.x: needle", Error, true},
		{"wandb: ERROR needle", Error, false},
		{"[I 2026-11-20 10:00:05,123] Trial 0 finished", Info, true},
		{"[E 261120 10:00:05 web:123] x", Error, true},
		{"[E 2026-11-20 10:00:05.123 ServerApp] x", Error, true},
		{"2026-11-20 10:00:05 [scrapy.core] ERROR: x", Error, true},
		{"[2026-11-20 10:00:05,123][__main__][ERROR] - needle", Error, true},
		{"[11/20 10:00:05 d2.engine]: x", Unknown, true},
		{"11/20 10:00:05 - mmengine - ERROR - x", Error, true},
		{"[NeMo E 2026-11-20 10:00:05 file:1] x", Error, true},
		{"[2026-11-20 10:00:05,123] [   ERROR] file.py:1 - x", Error, true},
		{"[11/20/2026-10:00:05] [E] [TRT] x", Error, true},
		{"[TensorRT-LLM][ERROR] x", Error, false},
		{"[1795168805.123456] [host:123:0]        ucp.c:1   UCX  ERROR x", Error, true},
		{"2026/11/20 10:00:05 [error] 123#0: *1 x", Error, true},
		{"[Fri Nov 20 10:00:05.123456 2026] [core:error] [pid 123] x", Error, true},
		{"2026-11-20 10:00:05.123 UTC [123] ERROR:  x", Error, true},
		{"123:M 20 Nov 2026 10:00:05.123 # msg", Unknown, true},
		{"fail: Microsoft.Foo[0]", Error, false},
		{"[10:00:05 ERR] x", Error, true},
		{"10:00:05.123 [error] x", Error, true},
		{"E, [2026-11-20T10:00:05.123456 #123] ERROR -- : needle", Error, true},
		{"┌ Error: needle", Error, false},
		{"[ Info: ok", Info, false},
		{"[ERROR] [1795168805.123456789] [node]: x", Error, true},
		{"127.0.0.1 - - [20/Nov/2026:10:00:05 +0000] \"GET / HTTP/1.1\" 200", Unknown, true},
		{"Nov 20, 2026 10:00:05 AM com.foo.Bar method", Unknown, true},
		{"SEVERE: x", Error, false},
		{"2026-11-20T10:00:05.000Z error: needle", Error, true},
		{"2026-11-20T10:00:05.000Z [error]: needle", Error, true},
		{"error: needle", Error, false},
		{"2026-11-20 10:00:05 root ERROR needle", Error, true},
		{"ValueError: bad 2026-11-20 10:00:05", Unknown, false},
		{"KeyError: ERROR x", Unknown, false},
		{"Traceback (most recent call last):", Unknown, false},
		{"  File \"x.py\", line 1, in ERROR", Unknown, false},
		{"epoch 3 loss 0.1 ERROR", Unknown, false},
		{"x 2026-11-20 10:00:05", Unknown, false},
		{"epoch:  50%|#####     | 5/10 [00:01<00:01,  5.00it/s]ERROR:root:needle", Error, false},
		{"\repoch:  50%|#####     | 5/10 [00:01<00:01,  5.00it/s]\r2026-11-20 10:00:05 ERROR x", Error, true},
		{"\xef\xbb\xbf2026-11-20 10:00:05 ERROR x", Error, true},
		{"❌ ERROR: x", Error, false},
		{"⚠️ 2026-11-20 10:00:05 WARNING x", Warning, true},
		{"🔥 the ERROR is in the message", Unknown, false},
		{"worker-1  | 2026-11-20 10:00:05 ERROR x", Error, true},
		{"10.0.0.1: [2026-11-20 10:00:05,123] [ERROR] [x.py:1:f] m", Error, true},
		{"[1,0]<stderr>:ERROR:root:x", Error, false},
		{"2026-11-20 10:00:05 Got ERROR from the server", Unknown, true},
		{"2026-11-20 10:00:05 loading the ERROR table", Unknown, true},
		{"panic: runtime error", Fatal, false},
		{"thread 'main' panicked at src/main.rs:2:5:", Fatal, false},
		{"20261120T100005Z ERROR x", Error, true},
		{"Error in f(1) : bad", Unknown, false},
		{"--- Logging error ---", Unknown, false},
		{"    raise ValueError(\"ERROR\")", Unknown, false},
		{"- ERROR is not a level here", Unknown, false},
	} {
		h := Parse([]byte(c.line), clock)
		if h.Level != c.level || h.Dated != c.dated {
			t.Errorf("%s: level %v, dated %t, want %v, %t", c.line, h.Level, h.Dated, c.level, c.dated)
		}
		if got := time.Unix(0, h.Time).UTC(); h.Dated && got.Sub(at).Abs() > 6*time.Second {
			t.Errorf("%s: %v", c.line, got)
		}
	}
}

// TestBeginsTraceback: a traceback is told by its first line, also behind what stands before all lines of a process,
// but not where it is quoted, or is a part of another one.
func TestBeginsTraceback(t *testing.T) {
	for line, want := range map[string]bool{
		"Traceback (most recent call last):":                                                      true,
		"Traceback (most recent call last):\r":                                                    true,
		"[default0]:[rank0]: Traceback (most recent call last):":                                  true,
		"\x1b[36m(train pid=1, ip=10.0.0.1)\x1b[0m Traceback (most recent call last):":            true,
		"(MapWorker(MapBatches(f)) pid=1) Traceback (most recent call last):":                     true,
		"[1,0]<stderr>:Traceback (most recent call last):":                                        true,
		"epoch:  50%|#####     | 5/10 [00:01<00:01,  5.00it/s]Traceback (most recent call last):": true,
		"  + Exception Group Traceback (most recent call last):":                                  true,
		"╭──────── Traceback (most recent call last) ─────────╮":                                  true,
		"  | Traceback (most recent call last):":                                                  false,
		"    Traceback (most recent call last):":                                                  false,
		"(train pid=1)     Traceback (most recent call last):":                                    false,
		"ERROR x: Traceback (most recent call last):":                                             false, // a record
		"it printed: Traceback (most recent call last):":                                          false,
		"Traceback (most recent call last) is what Python prints":                                 false,
	} {
		if got := Parse([]byte(line), &Clock{}).Traceback; got != want {
			t.Errorf("%q: %t, want %t", line, got, want)
		}
	}
}
