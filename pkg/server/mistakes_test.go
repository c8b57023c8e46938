package server

import (
	"net/http"
	"strings"
	"testing"
)

// Addresses that people mistype or cut say what is meant, without words of the code.
func TestMistakes(t *testing.T) {
	f := start(t, nil)
	for _, tc := range []struct {
		path, as, location string
		status             int
		holds              []string
	}{
		{path: lab + "lastest/", as: asBrowser, status: 400,
			holds: []string{"lastest", "latest (the newest)", "session_2026-"}},
		{path: lab + "lastest/api/jobs/a", as: asProgram, status: 400,
			holds: []string{"lastest", "latest (the newest)"}},
		{path: "/namespaces/default/clusters/lab", as: asBrowser, status: 302,
			location: "../../../homepage?cluster=lab&namespace=default"},
		{path: "/namespaces/default/clusters/lab/", as: asBrowser, status: 302,
			location: "../../../../homepage?cluster=lab&namespace=default"},
		{path: "/namespaces/default/clusters/lab/sessions/", as: asBrowser, status: 302,
			location: "../../../../../homepage?cluster=lab&namespace=default"},
		{path: "/namespaces/default/clusters/lab", as: asProgram, status: 404, holds: []string{"/sessions/latest"}},
		{path: "/namespaces/a%3Cb/clusters/%22%26x", as: asBrowser, status: 302,
			location: "../../../homepage?cluster=%22%26x&namespace=a%3Cb"},
	} {
		got := f.ask(t, http.MethodGet, tc.path, tc.as)
		if got.status != tc.status || got.header.Get("Location") != tc.location ||
			strings.Contains(got.body, "layout") {
			t.Errorf("%s: %d to %q, want %d to %q: %s", tc.path, got.status, got.header.Get("Location"), tc.status,
				tc.location, got.body)
		}
		for _, want := range tc.holds {
			if !strings.Contains(got.body, want) {
				t.Errorf("%s: no %q in %s", tc.path, want, got.body)
			}
		}
	}
}
