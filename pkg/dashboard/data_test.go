package dashboard

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// constant are metrics of which every series has one value, for the datasets that are named.
type constant struct {
	value             float64
	dataset, operator string
	asked             []string
}

func (c *constant) Values(_ context.Context, _ layout.Session, _ bool, _ time.Time, expression string,
	see func(func(string) string, float64)) error {
	c.asked = append(c.asked, expression)
	see(func(label string) string {
		switch {
		case label == "dataset":
			return c.dataset
		case label == "operator" && strings.Contains(expression, "operator"):
			return c.operator
		}
		return ""
	}, c.value)
	return nil
}

// TestDatasetsOfMetrics: where Ray had no Prometheus to ask, the columns that it would have filled come from the stored
// metrics.
func TestDatasetsOfMetrics(t *testing.T) {
	rec := recording.OpenNamed(t, "ray-2.60-wide")
	s := load(t, rec.Store(), rec.Session)
	plain := newAsker(t, s, Options{})
	var path string
	var row *pyjson.Object
	for _, job := range []string{"01000000", "02000000", "03000000", "04000000", "05000000", "06000000", "07000000",
		"08000000", "09000000"} {
		path = "/api/data/datasets/" + job
		body, err := pyjson.ParseObject(plain.get(path).Body.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if list := body.List("datasets"); len(list) > 0 {
			row = list[0].(*pyjson.Object)
			break
		}
	}
	operator := row.List("operators")[0].(*pyjson.Object)
	metrics := &constant{value: 2.5, dataset: row.String("dataset"), operator: operator.String("operator")}
	before := plain.get(path).Body.String()
	w := newAsker(t, s, Options{Metrics: metrics}).get(path)
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	body, err := pyjson.ParseObject(w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	filled := body.List("datasets")[0].(*pyjson.Object)
	for _, of := range []*pyjson.Object{filled, filled.List("operators")[0].(*pyjson.Object)} {
		if cpu := of.Object("ray_data_cpu_usage_cores"); cpu.String("value") != "2.5" || cpu.String("max") != "2.5" {
			t.Errorf("CPU: %s", pyjson.Append(nil, cpu))
		}
		if rows := of.Object("ray_data_output_rows"); rows.Len() != 1 || rows.String("max") != "2.5" {
			t.Errorf("rows: %s", pyjson.Append(nil, rows))
		}
	}
	if len(metrics.asked) == 0 || !strings.Contains(strings.Join(metrics.asked, "\n"),
		"max_over_time(sum by (dataset, operator) (ray_data_output_rows)[") {
		t.Errorf("asks %q", metrics.asked)
	}
	if after := plain.get(path).Body.String(); after != before {
		t.Error("what is kept of the snapshot was changed")
	}
}
