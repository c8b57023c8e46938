package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
)

// shutdown is how long a collector may take to ship what is left; Kubernetes gives a pod 30 s.
const shutdown = 30 * time.Second

// collect runs a collector per recorded node until all of the recording is stored below data.
func collect(ctx context.Context, name, binary, work, data string) error {
	archive, err := recording.Find(name)
	if err != nil {
		return err
	}
	session, err := archive.Session()
	if err != nil {
		return err
	}
	say("%s of cluster %s (%s)", session.Name, session.Cluster, name)
	answers, err := archive.ReadGolden()
	if err != nil {
		return err
	}
	dashboard := httptest.NewServer(recording.Dashboard(answers))
	defer dashboard.Close()
	nodes, err := archive.Nodes()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		group.Go(func() error {
			if err := collectNode(ctx, archive, node, binary, work, data, dashboard.URL); err != nil {
				return fmt.Errorf("node %s: %w", node, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return endAsRecorded(data, session, archive)
}

func collectNode(ctx context.Context, archive *recording.Archive, node, binary, work, data,
	dashboard string) (err error) {
	dir := filepath.Join(work, node)
	tmpRay := filepath.Join(dir, "ray")
	if err := os.MkdirAll(tmpRay, 0o755); err != nil {
		return err
	}
	if err := archive.ExtractTmpRay(node, tmpRay); err != nil {
		return err
	}
	posts, err := archive.ReadPosts(node)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	role := "Worker"
	if node == recording.Head {
		role = "Head"
	}
	collector, err := start(filepath.Join(dir, "collector.log"), binary,
		"--role", role, "--ray-cluster-name", recording.Cluster, "--ray-cluster-namespace", recording.Namespace,
		"--storage-backend", "local", "--local-dir", data, "--ray-tmp-dir", tmpRay, "--spool-dir",
		filepath.Join(dir, "spool"),
		"--events-port", strconv.Itoa(port), "--metrics-address", "localhost", "--metrics-port", "0",
		"--ray-dashboard-address", dashboard, "--shutdown-timeout", "25s")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, collector.stop(shutdown))
		if err == nil {
			say("%-5s drained and stopped", node)
		}
	}()
	base := "http://127.0.0.1:" + strconv.Itoa(port)
	if err := collector.waitReady(ctx, base+"/healthz", 10*time.Second); err != nil {
		return err
	}
	events := 0
	for _, p := range posts {
		if err := post(ctx, base+p.Path, p.JSON()); err != nil {
			return fmt.Errorf("post %d events: %w", len(p.Body), err)
		}
		events += len(p.Body)
	}
	say("%-5s collector took %d events in %d requests", node, events, len(posts))
	return nil
}

// patience is how long a batch is sent again that the collector does not take, which it need not on a busy machine.
const patience = time.Minute

// post sends one batch as Ray's aggregator agent does: again until it is answered with 200.
func post(ctx context.Context, url string, body []byte) error {
	wait := backoff.Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second}
	for began := time.Now(); ; {
		err := postOnce(ctx, url, body)
		if err == nil || ctx.Err() != nil || time.Since(began) > patience {
			return err
		}
		_ = backoff.Sleep(ctx, wait.Next())
	}
}

func postOnce(ctx context.Context, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(said))
	}
	return nil
}

// freePort finds a port nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
