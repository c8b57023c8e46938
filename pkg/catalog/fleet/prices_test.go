package fleet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
)

const priceFile = `
currency: USD
cpu: 1
gpu: 10
memory: 0.5
nodes:
- labels: {ray.io/market-type: spot, ray.io/accelerator-type: A100}
  gpu: 4
- labels: {ray.io/market-type: spot}
  node: 3
budgets:
- {namespace: lab, month: 300}
- {namespace: "p*", month: 30}
`

func pricesOf(t *testing.T, text string) (*Prices, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "prices.yaml")
	must.OK(t, os.WriteFile(name, []byte(text), 0o600))
	return ReadPrices(name)
}

// TestCosts: a report has what sessions, days, namespaces, owners, jobs and users cost, and what namespaces may.
func TestCosts(t *testing.T) {
	f := open(t)
	f.Prices = must.Get(pricesOf(t, priceFile))(t)
	f.pack(t, sample()...)
	r := compute(t, f, "from=2026-11-10&to=2026-11-22&by=cost")
	// 6 CPU hours, 2 GPU hours and 8 GiB hours each; the last session without GPUs
	says.True(t, r.Currency == "USD" && near(r.Total.Hours.Cost, 3*30+10) && near(r.Days[1].Cost, 60) && r.By == ByCost,
		"%s %+v, days %+v", r.Currency, r.Total, r.Days)
	budget := 13.0 / 30
	if n := r.Namespaces; len(n) != 2 || n[0].Namespace != "prod" || !near(n[0].Hours.Cost, 60) ||
		!near(n[0].Budget, 30*budget) || !near(n[1].Budget, 300*budget) || !near(r.Budget, 330*budget) {
		t.Errorf("namespaces %+v, budget %v", n, r.Budget)
	}
	// Of the first session, training took three quarters of the time.
	says.True(t, len(r.Users) == 1 && r.Users[0].Name == "ada" && near(r.Users[0].Hours.Cost, 22.5), "users %+v",
		r.Users)
	var b strings.Builder
	must.OK(t, r.WriteCSV(&b, "users"))
	says.True(t, strings.HasSuffix(b.String(), ",22.5\n") && strings.Contains(b.String(), "memory_unused,cost\n"),
		b.String())
	f.Prices = nil
	text := string(must.Get(json.Marshal(compute(t, f, "from=2026-11-10&to=2026-11-22")))(t))
	says.True(t, !strings.Contains(text, "cost") && !strings.Contains(text, "budget") &&
		!strings.Contains(text, "currency"), "without prices: %s", text)
	says.True(t, says.Err(f.Compute(t.Context(), ask(t, "by=cost"), listing(t, f))) != nil,
		"ranked by costs without prices")
}

// TestCostByLabels: the first price whose labels a node has counts; hours of nodes without labels cost what all do.
func TestCostByLabels(t *testing.T) {
	p := must.Get(pricesOf(t, priceFile))(t)
	var h packs.Hours
	h.AddNode(map[string]string{"ray.io/market-type": "spot", "ray.io/accelerator-type": "A100", "team": "x"},
		packs.Amounts{Node: 1, CPU: 8, GPU: 2, Memory: 4}) // 2 GPUs for 4
	h.AddNode(map[string]string{"ray.io/market-type": "spot"}, packs.Amounts{Node: 2, CPU: 8}) // 2 nodes for 3
	h.AddNode(map[string]string{"ray.io/node-group": "x"}, packs.Amounts{Node: 1, CPU: 4, Memory: 2})
	h.AddNode(nil, packs.Amounts{Node: 1, GPU: 1})
	got := p.costOfSession(&h)
	says.True(t, near(got, 8+6+5+10) && len(h.Nodes) == 3 && h.Node == 5 && h.CPU == 20, "%v of %+v", got, h)
	for n := range 100 {
		h.AddNode(map[string]string{"ray.io/node-group": string(rune('a' + n))}, packs.Amounts{Node: 1})
	}
	says.True(t, len(h.Nodes) <= 16 && h.Node == 105, "%d kinds of nodes, %v hours", len(h.Nodes), h.Node)
}

func TestBudgetOfDays(t *testing.T) {
	p := &Prices{Budgets: []Budget{{Namespace: "a", Month: 3100}, {Namespace: "*", Month: 1}}}
	a, b := p.monthlyBudget("a"), p.monthlyBudget("b")
	says.True(t, a == 3100 && b == 1, "%v, %v", a, b)
	from := time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC) // the last of 31 days, and half of November
	noon := from.Add(12 * time.Hour)                      // twelve hours of each month
	for _, c := range []struct {
		from, to time.Time
		want     float64
	}{{from, from.AddDate(0, 0, 16), 1./31 + .5}, {from, from.AddDate(0, 0, 1), 1. / 31},
		{noon, noon.AddDate(0, 0, 1), .5/31 + .5/30}} {
		got := monthsOf(c.from, c.to)
		says.True(t, near(got, c.want), "from %s to %s: %v months", c.from, c.to, got)
	}
}

func TestPricesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"cpu: 1":                                                         "currency",
		"currency: USD":                                                  "above 0",
		"{currency: USD, cpu: -1}":                                       "0 or more",
		"{currency: USD, cpu: .nan}":                                     "0 or more",
		"{currency: USD, cpu: 1, disk: 2}":                               "disk",
		"{currency: 12345678901234, cpu: 1}":                             "12 characters",
		"{currency: USD, nodes: [{cpu: 1}]}":                             "want labels",
		"{currency: USD, nodes: [{labels: {pod: x}, cpu: 1}]}":           "ray.io/node-group",
		"{currency: USD, cpu: 1, budgets: [{namespace: '[', month: 1}]}": "stands for any",
		"{currency: USD, cpu: 1, budgets: [{namespace: a}]}":             "amount of money",
	} {
		says.Error(t, says.Err(pricesOf(t, text)), want, text)
	}
	p, err := ReadPrices("")
	says.True(t, p == nil && err == nil, "without a file: %v, %v", p, err)
}

// TestDocumentedPrices: the example of the documentation is one.
func TestDocumentedPrices(t *testing.T) {
	text := string(must.Get(os.ReadFile("../../../docs/cost.md"))(t))
	_, after, _ := strings.Cut(text, "```yaml\ncurrency:")
	example, _, found := strings.Cut("currency:"+after, "```")
	p, err := pricesOf(t, example)
	says.True(t, err == nil && found && len(p.Nodes) != 0 && len(p.Budgets) != 0, "%v: %s", err, example)
}
