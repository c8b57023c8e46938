package dashboard

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

func TestWithoutNulls(t *testing.T) {
	node := pyjson.Obj("mem", nil, "networkSpeed", []any{nil, 1.0}, "raylet", pyjson.Obj("objectStoreUsedMemory", nil),
		"workers", []any{
			nil, pyjson.Obj("pid", 7, "memoryInfo", nil, "coreWorkerStats", nil, "cmdline", nil),
			pyjson.Obj("memoryInfo", pyjson.Obj("rss", 1.0, "pfaults", nil), "coreWorkerStats", []any{}, "cmdline",
				[]any{"x"}),
			pyjson.Obj("pid", 8, "coreWorkerStats", []any{}, "cmdline", []any{}),
		}, "actors", pyjson.Obj("ab", pyjson.Obj("pid", 8, "jobId", "01", "address",
			pyjson.Obj("workerId", "cd", "ipAddress", "10.0.0.1"))))
	before := string(pyjson.Append(nil, node))
	want := `{"networkSpeed": [0.0, 1.0], "raylet": {"objectStoreUsedMemory": 0, "objectStoreAvailableMemory": 0}, "workers": [` +
		`{"pid": 7, "memoryInfo": {}, "coreWorkerStats": [], "cmdline": []}, {"memoryInfo": {"rss": 1.0}, "coreWorkerStats": [], "cmdline": ["x"]}, ` +
		`{"pid": 8, "coreWorkerStats": [{"workerId": "cd", "pid": 8, "ipAddress": "10.0.0.1", "jobId": "01"}], "cmdline": [], "memoryInfo": {}}], ` +
		`"actors": {"ab": {"pid": 8, "jobId": "01", "address": {"workerId": "cd", "ipAddress": "10.0.0.1"}}}, ` +
		`"diskIoSpeed": [0.0, 0.0, 0.0, 0.0]}`
	if got := string(pyjson.Append(nil, withoutNulls(node))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(pyjson.Append(nil, node)); got != before {
		t.Errorf("the stored answer was changed: %s", got)
	}
}
