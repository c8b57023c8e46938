package main

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/client"
)

// recordedJobs is a store with two recorded clusters, cases/jobs255 and cases/jobs260.
func recordedJobs(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, archive := range []string{"jobs-2.55", "jobs-2.60"} {
		must.OK(t, recording.Unpack(filepath.Join("..", "..", "pkg", "findings", "testdata", archive+".tar.gz"), dir))
	}
	return dir
}

// serving starts the server over a store, until the test ends, and returns its address.
func serving(t *testing.T, dir string, flags ...string) (address string) {
	t.Helper()
	o := must.Get(parse(t, append([]string{"--local-dir=" + dir, "--dashboard-dir=" + t.TempDir()}, flags...), nil))(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.serve(ctx, listener, silent.Logger(), prometheus.NewRegistry()) }()
	t.Cleanup(func() {
		stop()
		says.OK(t, <-ended)
	})
	return "http://" + listener.Addr().String()
}

// untilDescribed waits until the server has read what its store holds of each session.
func untilDescribed(t *testing.T, address string) {
	t.Helper()
	base := must.Get(client.ParseBase(address))(t)
	c := client.New(base, http.DefaultTransport)
	must.Happen(t, "that all is described", func() bool {
		sessions := must.Get(c.Sessions(t.Context(), nil))(t)
		return !slices.ContainsFunc(sessions, func(s client.Session) bool { return s.Objects == 0 })
	})
}
