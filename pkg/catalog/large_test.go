package catalog

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
)

// TestAnswersTakeMemoryByTheirText: what an answer takes in memory does not depend on how many elements, keys or texts
// its bytes hold.
func TestAnswersTakeMemoryByTheirText(t *testing.T) {
	fill := func(begin, part, end string) string {
		return begin + strings.Repeat(part, (maxAnswer-len(begin)-len(end)-len(part))/len(part)) +
			strings.TrimSuffix(part, ",") + end
	}
	nodes := func(part string) string { return fill(`{"data":{"result":{"result":[`, part, `]}}}`) }
	for name, test := range map[string]struct {
		text string
		read string
		ok   bool
	}{
		"nodes":          {nodes(`{},`), "nodes", true},
		"nodes, null":    {nodes(`null,`), "nodes", true},
		"lists instead":  {nodes(`[],`), "nodes", false},
		"a node of keys": {fill(`{"data":{"result":{"result":[{`, `"k":1,`, `}]}}}`), "nodes", false},
		"keys before":    {fill(`{`, `"k":{},`, `}`), "nodes", false},
		"a list before":  {fill(`{"x":[`, `{},`, `]}`), "nodes", false},
		"jobs":           {fill(`[`, `{},`, `]`), "jobs", true},
		"metadata":       {fill(`[{"metadata":{`, `"k":1,`, `}}]`), "jobs", false},
		"metadata of many": {fill(`[`, `{"metadata":{`+strings.Repeat(`"k":{},`, 1000)+`"user":"ana"}},`, `]`),
			"jobs", true},
		"escapes":             {fill(`[{"entrypoint":"`, `\u0001`, `"}]`), "jobs", false},
		"bytes that are none": {fill(`[`, `{"entrypoint":"`+strings.Repeat("\xff", 1<<20)+`"},`, `]`), "jobs", true},
		"nested":              {fill(`[{"metadata":{"user":`, `[`, ``), "jobs", false},
		"user is a long list": {fill(`[`, `{"metadata":{"user":[`+strings.Repeat(`{},`, 300_000)+`{}]}},`, `]`),
			"jobs", true},
		"times in every field": {nodes(`{"start_time_ms":1,"resources_total":{"CPU":1}},`), "nodes", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := packs.Facts{End: time.Unix(1e9, 0)}
			decode := readJobs
			if test.read == "nodes" {
				decode = new(sources).readHours
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			err := decode(jsonstream.New(strings.NewReader(test.text), maxValue), &f)
			runtime.ReadMemStats(&after)
			// Everything that was allocated counts, as if it was never collected.
			if took := int64(after.TotalAlloc - before.TotalAlloc); (err == nil) != test.ok || took > 12*maxAnswer {
				t.Errorf("%v after %d MB", err, took>>20)
			}
			if f.Hours != nil || len(f.Jobs) > maxListed {
				t.Errorf("%+v, %d jobs", f.Hours, len(f.Jobs))
			}
		})
	}
}
