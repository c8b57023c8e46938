package server

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
)

func TestPagesOfClusters(t *testing.T) {
	all := entries(60)
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	all[30].Start = all[29].Start // two that began at once
	if part, next, err := page(all, nil, now); len(part) != 60 || next != "" || err != nil {
		t.Errorf("without parameters: %d, %q, %v", len(part), next, err)
	}
	for _, query := range []string{"limit=7", "limit=7&state=ended", "limit=1000", "limit=7&q=nightly", "limit=60"} {
		v, _ := url.ParseQuery(query)
		f, _ := catalog.ParseFilter(v)
		var want, got []string
		for i := range all {
			if f.Passes(&all[i], now) {
				want = append(want, all[i].Ref.Name)
			}
		}
		list := slices.Clone(all)
		for n := 0; ; n++ {
			part, next, err := page(list, v, now)
			if err != nil || len(part) > 60 || n > 60 {
				t.Fatal(err)
			}
			for _, e := range part {
				got = append(got, e.Ref.Name)
			}
			if next == "" {
				break
			}
			if v, err = url.ParseQuery(next[1:]); err != nil {
				t.Fatal(err)
			}
			// A session begins while somebody pages.
			list = slices.Insert(list, 0, catalog.Entry{Start: now})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d sessions %v, want %d", query, len(got), got, len(want))
		}
	}
	for _, query := range []string{"limit=0", "from=yesterday", "limit=x", "limit=-1", "continue=!", "continue=AAAA"} {
		v, _ := url.ParseQuery(query)
		if _, _, err := page(all, v, now); err == nil {
			t.Errorf("%s is no error", query)
		}
	}
}
