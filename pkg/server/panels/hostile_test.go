package panels

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// pageOf is the page of a stored dashboard, and its status.
func pageOf(t *testing.T, address, dashboard string) (int, string) {
	t.Helper()
	store := storetest.New()
	putMetrics(t, store)
	put(t, store, "default_grafana_dashboard.json", []byte(dashboard))
	answer := ask(t, newPanels(store), address, "default", false)
	return answer.Code, answer.Body.String()
}

// TestDashboardsAreBounded: a stored dashboard may have more than Ray's, but not so much that reading or showing it
// takes what others need.
func TestDashboardsAreBounded(t *testing.T) {
	many := func(what string, n int) string { return strings.TrimSuffix(strings.Repeat(what+",", n), ",") }
	panel := func(fields string) string { return fmt.Sprintf(`{"panels":[{"id":1,"title":"mine",%s}]}`, fields) }
	for what, test := range map[string]struct {
		dashboard string
		shown     bool
	}{
		"panels":          {`{"panels":[` + many(`{"title":"mine"}`, 1000) + `]}`, true},
		"too many panels": {`{"panels":[` + many(`{"title":"mine"}`, maxValues) + `]}`, false},
		"empty panels":    {`{"panels":[` + many(`{}`, maxValues) + `]}`, false},
		"too many values": {panel(`"legend":{"x":[` + many(`0`, maxValues) + `]}`), false},
		"too many lists": {panel(`"legend":{"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`),
			true},
		"queries":            {panel(`"targets":[` + many(`{"expr":"up"}`, maxOfPanel) + `]`), true},
		"too many queries":   {panel(`"targets":[` + many(`{"expr":"up"}`, maxOfPanel+1) + `]`), false},
		"too many overrides": {panel(`"seriesOverrides":[` + many(`{"alias":"a"}`, maxOfPanel+1) + `]`), false},
		"too many variables": {strings.TrimSuffix(panel(`"id":1`), "}") + `,"templating":{"list":[` +
			variables(maxVariables+1) + `]}}`, false},
		"variables": {strings.TrimSuffix(panel(`"id":1`), "}") + `,"templating":{"list":[` +
			variables(maxVariables) + `,{"name":"v1"},null]}}`, true},
	} {
		code, page := pageOf(t, "/grafana/d/rayDefaultDashboard/", test.dashboard)
		says.Equal(t, code == http.StatusOK && strings.Contains(page, ">mine</h2>"), test.shown, "%s: %d, %.300s", what,
			code, page)
		if n := strings.Count(page, `name="var-v1"`); n > 1 {
			t.Errorf("%s: variable v1 is there %d times", what, n)
		}
	}
}

func variables(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"name":"v%d"}`, i))
	}
	return strings.Join(list, ",")
}

// TestPagesReserveMemory: a page that is much larger than Ray's waits for memory until others have sent theirs, and
// usual ones do not.
func TestPagesReserveMemory(t *testing.T) {
	memory := budget.New(budget.Options{Bytes: 64 << 20, Wait: time.Nanosecond, Registerer: prometheus.NewRegistry()})
	release := must.Get(memory.Reserve(t.Context(), budget.Work, memory.Size(budget.Work)))(t)
	store := storetest.New()
	putMetrics(t, store)
	put(t, store, "large_grafana_dashboard.json",
		fmt.Appendf(nil, `{"panels":[{"id":1,"title":"mine","description":"%s"}]}`, strings.Repeat("x", 1<<20)))
	put(t, store, "usual_grafana_dashboard.json", []byte(`{"panels":[{"id":1,"title":"mine"}]}`))
	p := newPanels(store)
	page := func(name string) (int, error) {
		w := httptest.NewRecorder()
		err := p.Page(w, requestOf(t, "/grafana/d/rayDefaultDashboard/", memory), name, false)
		return w.Body.Len(), err
	}
	if n, err := page("large"); !errors.Is(err, budget.ErrBusy) || n > 0 {
		t.Errorf("the large page without memory: %d bytes, %v", n, err)
	}
	if n, err := page("usual"); err != nil || n == 0 {
		t.Errorf("the usual page without memory: %d bytes, %v", n, err)
	}
	release()
	if n, err := page("large"); err != nil || n < 1<<20 {
		t.Errorf("the large page: %d bytes, %v", n, err)
	}
}

// TestPagesWaitForMemory: large pages that wait for memory do not keep usual ones waiting.
func TestPagesWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := budget.New(budget.Options{Bytes: 64 << 20, Wait: time.Hour, Registerer: prometheus.NewRegistry()})
		release := must.Get(memory.Reserve(t.Context(), budget.Work, memory.Size(budget.Work)))(t)
		store := storetest.New()
		putMetrics(t, store)
		put(t, store, "large_grafana_dashboard.json",
			fmt.Appendf(nil, `{"panels":[{"id":1,"title":"mine","description":"%s"}]}`, strings.Repeat("x", 1<<20)))
		put(t, store, "usual_grafana_dashboard.json", []byte(`{"panels":[{"id":1,"title":"mine"}]}`))
		p := newPanels(store)
		page := func(name string) error {
			return p.Page(httptest.NewRecorder(), requestOf(t, "/grafana/d/rayDefaultDashboard/", memory), name, false)
		}
		for range maxBuilding {
			go func() {
				says.OK(t, page("large"), "a large page when there is memory again")
			}()
		}
		synctest.Wait()
		began := time.Now() // of the bubble's clock, which goes on only when all wait
		err := page("usual")
		says.True(t, err == nil && time.Since(began) <= 0, "a usual page waited for %s: %v", time.Since(began), err)
		release()
		synctest.Wait()
	})
}

// TestCopiesOfValues: few queries that name a long value often do not become more text than a page may have.
func TestCopiesOfValues(t *testing.T) {
	const dashboard = `{"panels":[{"id":1,"title":"mine","targets":[{"expr":"%s"}]}],
		"templating":{"list":[{"name":"v","type":"custom","includeAll":true,"allValue":"%s","current":{"value":"$__all"}}]}}`
	for _, test := range []struct {
		references, value int
		want              int
	}{{100, 10_000, http.StatusOK}, {1000, 10_000, http.StatusBadRequest}, {200_000, 200_000, http.StatusBadRequest}} {
		code, page := pageOf(t, "/grafana/d/rayDefaultDashboard/",
			fmt.Sprintf(dashboard, strings.Repeat("$v ", test.references), strings.Repeat("x", test.value)))
		says.True(t, code == test.want && len(page) <= maxQueries &&
			strings.Contains(page, "too long") == (code != http.StatusOK), "%d times %d: %d, %d bytes", test.references,
			test.value, code, len(page))
	}
}

// TestColors: only colours reach the styles of a page; an address in one would be asked for by the browser of who looks
// at the panel.
func TestColors(t *testing.T) {
	colors := []string{"#1F60C4", "#fff8", "red", "dark-orange", "rgba(1, 2, 3, .5)", "hsl(120deg)",
		"url(/enter_cluster/a/b/c)", "red;background:url(x)", "image-set('x')", "var(--x", "rgb(1) url(x)"}
	var overrides []string
	for _, c := range colors {
		overrides = append(overrides, fmt.Sprintf(`{"alias":"a","color":%q}`, c))
	}
	_, page := pageOf(t, "/grafana/d/rayDefaultDashboard/",
		`{"panels":[{"id":1,"seriesOverrides":[`+strings.Join(overrides, ",")+`]}]}`)
	var got []string
	for _, o := range drawings(t, page)[0].Overrides {
		got = append(got, o.Color)
	}
	want := append(slices.Clone(colors[:6]), "", "", "", "", "")
	says.True(t, slices.Equal(got, want), "%q, want %q", got, want)
}

// TestManyChosenValues: tens of thousands of values, offered and chosen, are each looked at once.
func TestManyChosenValues(t *testing.T) {
	list := func(prefix string, quote string) string {
		var values []string
		for i := range maxValues/2 - 100 {
			values = append(values, fmt.Sprintf("%s%s%d%s", quote, prefix, i, quote))
		}
		return strings.Join(values, ",")
	}
	code, page := pageOf(t, "/grafana/d/rayDefaultDashboard/",
		`{"panels":[{"id":1}],"templating":{"list":[{"name":"v","type":"custom","query":"`+list("offered-value-", "")+
			`","current":{"value":[`+list("chosen-value-", `"`)+`]}}]}}`)
	says.True(t, code == http.StatusOK && strings.Contains(page, "<option>offered-value-7</option>") &&
		strings.Contains(page, "<option selected>chosen-value-7</option>"), "%d %.300s", code, page)
}
