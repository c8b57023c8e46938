package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/client"
)

// recordedJobs is a store with two recorded clusters, cases/jobs255 and cases/jobs260.
func recordedJobs(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, archive := range []string{"jobs-2.55", "jobs-2.60"} {
		if err := recording.Unpack(filepath.Join("..", "..", "pkg", "findings", "testdata", archive+".tar.gz"), dir); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// serving starts the server over a store, until the test ends, and returns its address.
func serving(t *testing.T, dir string, flags ...string) (address string) {
	t.Helper()
	o, err := parse(t, append([]string{"--local-dir=" + dir, "--dashboard-dir=" + t.TempDir()}, flags...), nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.serve(ctx, listener, log, prometheus.NewRegistry()) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// untilDescribed waits until the server has read what its store holds of each session.
func untilDescribed(t *testing.T, address string) {
	t.Helper()
	base, err := client.ParseBase(address)
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(base, http.DefaultTransport)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		sessions, err := c.Sessions(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(sessions, func(s client.Session) bool { return s.Objects == 0 }) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
