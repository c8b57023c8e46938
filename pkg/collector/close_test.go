package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// closeWithin ends a collector within d, and fails if it is not over long after.
func closeWithin(t *testing.T, c *Collector, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Close(ctx) }()
	const long = 5 * time.Minute
	select {
	case err := <-done:
		return err
	case <-time.After(d + long):
		t.Fatalf("Close is not over %v after its %v", long, d)
		return nil
	}
}

// restart starts a collector with the folders of one whose Close gave up: what it left behind holds the spool for a
// moment.
func restart(t *testing.T, o Options) *Collector {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		again, _ := options(t, o.RayTmpDir)
		o.Registerer, o.Gatherer, o.Servers = again.Registerer, again.Gatherer, again.Servers
		c, err := New(o)
		if err == nil {
			c.Start()
			return c
		}
		must.True(t, strings.Contains(err.Error(), "another collector") && !time.Now().After(deadline), err)
	}
}

// TestEndWithoutBackend: what cannot be stored is an error at the end, in time, and is stored after the next start.
func TestEndWithoutBackend(t *testing.T) {
	r := recording.Open(t)
	o, store := options(t, r.TmpRay("w1"))
	var back atomic.Bool
	store.Fault = func(string) storetest.Fault {
		if back.Load() {
			return storetest.None
		}
		return storetest.Stall
	}
	c := start(t, o)
	posts := r.Posts("w1")
	post(t, c.url("/v1/events"), posts[0].JSON())
	says.ErrorIs(t, closeWithin(t, c, 300*time.Millisecond), context.DeadlineExceeded)
	says.Equal(t, len(store.Keys()), 0, "stored %v", store.Keys())
	back.Store(true)
	stop(t, restart(t, o))
	if events := strings.Count(storedOf(store, "_events/"), "\n"); events != len(posts[0].Body) {
		t.Errorf("%d events stored, %d were accepted", events, len(posts[0].Body))
	}
	for _, prefix := range []string{"log/metadir/", "log/recent/"} {
		says.True(t, slices.ContainsFunc(store.Keys(), func(key string) bool { return strings.HasPrefix(key, prefix) }),
			"the session has no marker below %s", prefix)
	}
}

// TestLastWords: what logs got and what logs were made just before the end is stored.
func TestLastWords(t *testing.T) {
	o, store := options(t, t.TempDir())
	makeSession(t, o.RayTmpDir, session().Name, rayid.Node{1})
	path := func(name string) string { return filepath.Join(o.RayTmpDir, session().Name, "logs", name) }
	appendTo(t, path("grows.out"), "hello\n")
	c := start(t, o)
	must.Get(c.tailer.Scan(t.Context()))(t)
	appendTo(t, path("grows.out"), "bye\n")
	appendTo(t, path("late.out"), "late\n")
	stop(t, c)
	for name, want := range map[string]string{"grows.out": "hello\nbye\n", "late.out": "late\n"} {
		says.Equal(t, storedOf(store, "/"+name), want, "is stored of %s: %q", name, store.Keys())
	}
}

// TestEndBeforeTheStart: a collector that was never started stores what is there when it ends.
func TestEndBeforeTheStart(t *testing.T) {
	o, store := options(t, t.TempDir())
	makeSession(t, o.RayTmpDir, session().Name, rayid.Node{1})
	appendTo(t, filepath.Join(o.RayTmpDir, session().Name, "logs", "raylet.out"), "hello\n")
	stop(t, must.Get(New(o))(t))
	says.Equal(t, storedOf(store, "/raylet.out"), "hello\n", "stored")
}

// TestEndWithoutRaysFolder: events are stored at the end although Ray's folder cannot be read, which is an error.
func TestEndWithoutRaysFolder(t *testing.T) {
	o, store := options(t, filepath.Join(t.TempDir(), "ray"))
	o.Ship.PushInterval = time.Hour
	makeSession(t, o.RayTmpDir, session().Name, rayid.Node{1})
	c := start(t, o)
	post(t, c.url("/v1/events"), []byte(`[{"sessionName":"`+session().Name+`"}]`))
	must.OK(t, os.Rename(o.RayTmpDir, o.RayTmpDir+"-moved"))
	must.OK(t, os.WriteFile(o.RayTmpDir, nil, 0o600))
	says.Error(t, closeWithin(t, c, time.Minute), "--ray-tmp-dir", "closed")
	says.True(t, storedOf(store, "_events/") != "", "no event is stored: %q", store.Keys())
}

// TestRefusedLogsKeepNoOtherAtTheEnd: a log that only the last scan finds is stored also if the store refuses another
// until the end, or does not answer, and the error names only that one.
func TestRefusedLogsKeepNoOtherAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{"refuses": storetest.Refuse, "denies": storetest.Denied,
		"does not answer": storetest.Stall} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits until its time is over
			o, store := options(t, t.TempDir())
			store.Fault = func(key string) storetest.Fault {
				if strings.Contains(key, "/bad.out") {
					return fault
				}
				return storetest.None
			}
			makeSession(t, o.RayTmpDir, session().Name, rayid.Node{1})
			path := func(name string) string { return filepath.Join(o.RayTmpDir, session().Name, "logs", name) }
			appendTo(t, path("bad.out"), "hello\n")
			c := start(t, o)
			must.Get(c.tailer.Scan(t.Context()))(t)
			c.tailer.Close() // nothing notices the next log
			appendTo(t, path("late.out"), "late\n")
			err := closeWithin(t, c, 10*time.Second)
			says.True(t, err != nil && strings.Contains(err.Error(), "1 files or event streams") &&
				strings.Contains(err.Error(), "/bad.out"), "closed with %v", err)
			says.True(t, storedOf(store, "/late.out") != "", "late.out is not stored: %q", store.Keys())
		})
	}
}

// TestHangs: whatever never ends, the collector does, and says what is left.
func TestHangs(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	hang := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-never:
		case <-r.Context().Done():
		}
	}
	// deaf does not end, whatever the context says.
	deaf := &storetest.Hooked{Store: storetest.New(),
		Before: storetest.On(storetest.Create, func(context.Context, string) error {
			<-never
			return errors.New("too late")
		})}
	for name, test := range map[string]struct {
		set  func(t *testing.T, o *Options)
		with func(t *testing.T, c *Collector)
		// within is how long the end may take; 0 is so long that a slow machine is not what hangs.
		within time.Duration
		err    string // a part of it; "" is success
	}{
		"dashboard that accepts and never answers": {
			set: func(t *testing.T, o *Options) {
				server := httptest.NewServer(http.HandlerFunc(hang))
				t.Cleanup(server.Close)
				o.Head, o.Dashboard = true, server.URL
			},
		},
		"dashboard that never ends its answer": {
			set: func(t *testing.T, o *Options) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, `{"ray_version":`)
					_ = http.NewResponseController(w).Flush()
					hang(w, r)
				}))
				t.Cleanup(server.Close)
				o.Head, o.Dashboard = true, server.URL
			},
		},
		"store that never answers": {
			set:    func(_ *testing.T, o *Options) { o.Store = deaf },
			within: 10 * time.Second, err: "did not finish in time; what is not stored yet stays",
		},
		"log that grows faster than it is stored": {
			with: func(t *testing.T, c *Collector) {
				path := filepath.Join(c.opts.RayTmpDir, session().Name, "logs", "endless.out")
				stop, stopped := make(chan struct{}), make(chan struct{})
				t.Cleanup(func() { close(stop); <-stopped })
				go func() {
					defer close(stopped)
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Millisecond):
							appendTo(t, path, "and so on\n")
						}
					}
				}()
			},
		},
		"request that never ends": {
			with: func(t *testing.T, c *Collector) {
				post(t, c.url("/v1/events"), []byte("[]")) // the node is known then
				_, address, _ := strings.Cut(c.url(""), "//")
				conn, err := net.Dial("tcp", address)
				must.OK(t, err)
				// Once the server says 100 it reads the body.
				_, err = io.WriteString(conn, "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 30000000\r\nExpect: 100-continue\r\n\r\n")
				if err == nil {
					_, err = io.ReadFull(conn, make([]byte, len("HTTP/1.1 100")))
				}
				must.OK(t, err)
				sent := make(chan struct{})
				t.Cleanup(func() { _ = conn.Close(); <-sent })
				go func() { // as fast as a body must come
					defer close(sent)
					for err == nil {
						_, err = conn.Write(make([]byte, 128<<10))
						time.Sleep(500 * time.Millisecond)
					}
				}()
			},
			err: "stop the server for events",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, _ := options(t, t.TempDir())
			logs := filepath.Join(o.RayTmpDir, session().Name, "logs")
			must.OK(t, os.MkdirAll(logs, 0o755))
			appendTo(t, filepath.Join(o.RayTmpDir, session().Name, "metrics_agent_port_"+rayid.Node{1}.String()), "1")
			appendTo(t, filepath.Join(logs, "raylet.out"), "hello\n")
			if test.set != nil {
				test.set(t, &o)
			}
			c := start(t, o)
			if test.with != nil {
				test.with(t, c)
			}
			err := closeWithin(t, c, cmp.Or(test.within, 20*time.Second))
			says.True(t, (err != nil) == (test.err != "") && (err == nil || strings.Contains(err.Error(), test.err)),
				"error %v, want one with %q", err, test.err)
		})
	}
}

func appendTo(t *testing.T, path, text string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	says.OK(t, err)
}

// TestRestart: a session is not told to be over while Ray goes on, when only its collector is ended.
func TestRestart(t *testing.T) {
	t.Parallel()                        // it mostly waits for Ray
	tmp, err := os.MkdirTemp("", "ray") // t.TempDir is too long a path for a socket
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	// Other packages' tests have raylets in the kernel's list, too: the session is of this process only.
	ref := layout.Session{Namespace: "default", Cluster: "lab",
		Name: fmt.Sprintf("session_2026-11-20_23-19-45_581717_%d", os.Getpid())}
	socket := filepath.Join(tmp, ref.Name, "sockets", "raylet")
	must.OK(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	raylet, err := net.Listen("unix", socket)
	must.OK(t, err)
	o, store := options(t, tmp)
	o.Head = true
	life := func() bool {
		t.Helper()
		says.OK(t, closeWithin(t, restart(t, o), 20*time.Second))
		return store.Object(layout.MetadataKey("log", ref, layout.End)) != nil
	}
	says.True(t, !life(), "the end is told while Ray goes on")
	_ = raylet.Close()
	says.True(t, life(), "the end is not told")
}

// TestEndWithoutNode: logs that were never stored, because Ray ended before the node's ID was known, are not called
// stored. A session's folder without logs has nothing to store.
func TestEndWithoutNode(t *testing.T) {
	for _, logs := range []bool{true, false} {
		tmpRay := t.TempDir()
		folder := filepath.Join(tmpRay, session().Name)
		must.OK(t, os.MkdirAll(filepath.Join(folder, "sockets"), 0o755))
		if logs {
			folder = filepath.Join(folder, "logs")
		}
		must.OK(t, os.MkdirAll(folder, 0o755))
		if logs {
			must.OK(t, os.WriteFile(filepath.Join(folder, "raylet.err"), []byte("it cannot start\n"), 0o644))
		}
		o, store := options(t, tmpRay)
		o.Head = true
		err := closeWithin(t, start(t, o), time.Minute)
		says.True(t, logs == (err != nil) && (err == nil || strings.Contains(err.Error(), session().Name)),
			"logs: %t, error %v", logs, err)
		ended := slices.ContainsFunc(store.Keys(), func(key string) bool { return strings.Contains(key, layout.End) })
		says.True(t, ended != logs, "logs: %t, the end is stored: %t; keys %q", logs, ended, store.Keys())
	}
}

// What a scan finds while a flush ends is flushed, too.
func TestLastScanEndsWithAFlush(t *testing.T) {
	found, flushed, scanned := 0, 0, false
	flush := func(context.Context) error {
		flushed = found
		if !scanned {
			found, scanned = found+1, true // after the flush had looked at what there is
		}
		return nil
	}
	must.OK(t, flushAll(t.Context(), flush, func() bool { return scanned }))
	says.Equal(t, flushed, found)
}

// TestLastScansPause: while names of empty logs wait because the store does not answer, the last scans do not follow
// each other without a pause.
func TestLastScansPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tmp := t.TempDir()
		makeSession(t, tmp, session().Name, rayid.Node{1})
		appendTo(t, filepath.Join(tmp, session().Name, "logs", "worker.err"), "")
		const limit = 10 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		scans, most := 0, int(limit/scanPoll)+1
		tailer := logs.New(logs.Options{Dir: tmp, StateDir: t.TempDir(),
			Key:       func(_ string, _ rayid.Node, path string) string { return path },
			ListEmpty: func(string, rayid.Node, []byte) error { return spool.ErrGiveWay },
			Node: func(context.Context, string) (rayid.Node, error) {
				if scans++; scans > most {
					cancel() // or they would never end
				}
				return rayid.Node{1}, nil
			},
			Log: silent.Logger(), Registerer: prometheus.NewRegistry()})
		<-beginLastScans(ctx, tailer).done
		says.True(t, scans > 1 && scans <= most, "%d scans in %s", scans, limit)
	})
}
