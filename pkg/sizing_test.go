package pkg_test

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// document is a page of docs/.
type document struct {
	t    *testing.T
	text string
}

func openDocument(t *testing.T, name string) document {
	t.Helper()
	return document{t, string(must.Get(os.ReadFile(filepath.Join("..", "docs", name)))(t))}
}

// row returns the numbers of the table row that begins with a name.
func (d document) row(name string) (numbers []float64) {
	d.t.Helper()
	_, rest, ok := strings.Cut(d.text, "\n| "+name)
	must.True(d.t, ok, "no row %q", name)
	rest, _, _ = strings.Cut(rest, "\n")
	_, cells, _ := strings.Cut(rest, "|")
	for _, n := range regexp.MustCompile(`[0-9][0-9,.]*`).FindAllString(cells, -1) {
		n = strings.TrimRight(strings.ReplaceAll(n, ",", ""), ".")
		numbers = append(numbers, must.Get(strconv.ParseFloat(n, 64))(d.t))
	}
	return numbers
}

// usage is what nodes of one kind use in an hour.
type usage struct{ requests, megabytes float64 }

// TestSizes: the examples of the docs are what their formula makes of the measured figures beside it.
func TestSizes(t *testing.T) {
	cost, performance := openDocument(t, "cost.md"), openDocument(t, "performance.md")
	node := func(name string) usage {
		r := cost.row(name)
		return usage{r[0] + r[1] + 60, r[2] + 0.2}
	}
	worker, head := node("worker of a cluster with 5 tasks a second"), node("head of that cluster")
	prices := cost.row("Amazon S3 ")
	same := func(what string, got, want, tolerance float64) {
		t.Helper()
		says.True(t, math.Abs(got-want) <= tolerance*want, "%s: %g in the docs, computed %g", what, got, want)
	}
	hours := func(workers, heads float64) (requests, gigabytes float64) {
		return workers*worker.requests + heads*head.requests, (workers*worker.megabytes + heads*head.megabytes) / 1000
	}
	for name, clusters := range map[string]float64{"10 ": 10, "300 ": 300, "5,000 ": 5000} {
		requests, gigabytes := hours(clusters*9*240, clusters*240)
		row := performance.row(name)
		last := row[len(row)-4:] // requests, with a longer interval, terabytes, their price
		same(name+"clusters, requests", last[0], requests/1000*prices[0], 0.02)
		same(name+"clusters, requests at 5m", last[1], requests/5000*prices[0], 0.03)
		same(name+"clusters, stored", last[2], gigabytes/1000, 0.1)
		same(name+"clusters, for storage", last[3], gigabytes*prices[1], 0.04)
	}
	workers, heads, both := cost.row("workers "), cost.row("heads "), cost.row("together ")
	for _, r := range [][]float64{workers, heads} {
		counts := [2]float64{workers[0], 0}
		if r[0] == heads[0] {
			counts = [2]float64{0, heads[0]}
		}
		requests, gigabytes := hours(counts[0], counts[1])
		same("requests of the example", r[1], requests, 1e-9)
		same("stored of the example", r[2], 3*gigabytes, 0.002)
	}
	requests, gigabytes := hours(workers[0], heads[0])
	for i, want := range []float64{workers[0] + heads[0], requests, requests / 1000 * prices[0], 3 * gigabytes,
		3 * gigabytes * prices[1]} {
		same("the example's sum", both[i], want, 0.015)
	}
	bytes, events := 0.0, 0
	r := recording.Open(t)
	for _, name := range r.Nodes() {
		for _, post := range r.Posts(name) {
			bytes, events = bytes+float64(len(post.JSON())), events+len(post.Body)
		}
	}
	same("kB of an event", 0.8, bytes/float64(events)/1000, 0.07)
}
