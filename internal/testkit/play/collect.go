// Package play has real collectors collect recorded sessions, and starts and stops processes for that.
package play

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

// Recording is a recorded session that collectors collect, one per recorded node.
type Recording struct {
	Name   string // folder of test/testdata
	Binary string // the collector
	// Successor, if any, is the collector that goes on in each node's folders after the first was killed: it has
	// taken all events and has stored no more than what a full chunk made it store.
	Successor string
	Work      string // empty folder for the nodes' folders and collectors' logs
	Data      string // folder of the local store
	Say       func(format string, a ...any)
}

// Collect returns when all of the recording is stored.
func (r Recording) Collect(ctx context.Context) error {
	archive, err := recording.Find(r.Name)
	if err != nil {
		return err
	}
	session, err := archive.Session()
	if err != nil {
		return err
	}
	r.Say("%s of cluster %s (%s)", session.Name, session.Cluster, r.Name)
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
			if err := r.node(ctx, archive, node, dashboard.URL); err != nil {
				return fmt.Errorf("node %s: %w", node, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return endAsRecorded(r.Data, session, archive)
}

// node collects one recorded node.
func (r Recording) node(ctx context.Context, archive *recording.Archive, name, dashboard string) (err error) {
	dir := filepath.Join(r.Work, name)
	tmpRay := filepath.Join(dir, "ray")
	if err := os.MkdirAll(tmpRay, 0o755); err != nil {
		return err
	}
	if err := archive.ExtractTmpRay(name, tmpRay); err != nil {
		return err
	}
	posts, err := archive.ReadPosts(name)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	role := "Worker"
	if name == recording.Head {
		role = "Head"
	}
	arguments := []string{"--role", role, "--ray-cluster-name", recording.Cluster,
		"--ray-cluster-namespace", recording.Namespace, "--storage-backend", "local", "--local-dir", r.Data,
		"--ray-tmp-dir", tmpRay, "--spool-dir", filepath.Join(dir, "spool"), "--events-port", strconv.Itoa(port),
		"--metrics-address", "localhost", "--metrics-port", "0", "--ray-dashboard-address", dashboard,
		"--shutdown-timeout", "25s"}
	base := "http://127.0.0.1:" + strconv.Itoa(port)
	begin := func(binary string, more ...string) (*Process, error) {
		log := filepath.Join(dir, filepath.Base(filepath.Dir(binary))+".log")
		collector, err := Start(log, binary, append(arguments, more...)...)
		if err != nil {
			return nil, err
		}
		if err := collector.WaitReady(ctx, base+"/healthz", time.Minute); err != nil {
			collector.Kill()
			return nil, err
		}
		return collector, nil
	}
	var collector *Process
	if r.Successor == "" {
		collector, err = begin(r.Binary)
	} else {
		collector, err = begin(r.Binary, "--push-interval", "1h")
	}
	if err != nil {
		return err
	}
	events := 0
	for _, p := range posts {
		if err := post(ctx, base+p.Path, p.JSON()); err != nil {
			collector.Kill()
			return fmt.Errorf("post %d events: %w", len(p.Body), err)
		}
		events += len(p.Body)
	}
	r.Say("%-5s collector took %d events in %d requests", name, events, len(posts))
	if r.Successor != "" {
		collector.Kill()
		if collector, err = begin(r.Successor); err != nil {
			return err
		}
	}
	if err := collector.Stop(shutdown); err != nil {
		return err
	}
	r.Say("%-5s drained and stopped", name)
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
