package scrape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Ray writes the port of each node's exporter into the session's folder
// (ray/dashboard/modules/reporter/reporter_agent.py and ray/_private/services.py). On the head it also writes all
// targets of the cluster for Prometheus's file-based discovery: the exporters, and the head's autoscaler and dashboard
// (ray/_private/metrics_agent.py).
const (
	portFile      = "metrics_export_port_"
	discoveryFile = "prom_metrics_service_discovery.json"
)

const (
	maxPortFile      = 16
	maxDiscoveryFile = 1 << 20
	maxPorts         = 8
	maxEntries       = 10_000 // files in a session's folder
)

// errNoTargets says that the port of the node's exporter is not known, or not yet.
var errNoTargets = errors.New("the port of the node's metrics is not known: Ray has not written it yet")

// metricsPorts finds the ports of this host that serve metrics of the session: the one of the node's exporter and then,
// on a head, those of the discovery file that no other node's exporter has. At most maxPorts. errNoTargets says that
// Ray has not written the exporter's port, or not yet.
func metricsPorts(dir, session string, node rayid.Node, head bool, host string) ([]int, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("look for metrics: %w", err)
	}
	defer func() { _ = root.Close() }()
	own, err := readPort(root, session, portFile+node.String())
	if err != nil {
		return nil, err
	}
	found := []int{own}
	if !head {
		return found, nil
	}
	others, err := otherExporters(root, session, node)
	if err != nil {
		return nil, err
	}
	listed, err := discoveredPorts(root, session, host)
	if err != nil {
		return nil, err
	}
	for _, port := range listed {
		if len(found) < maxPorts && !slices.Contains(found, port) && !slices.Contains(others, port) {
			found = append(found, port)
		}
	}
	return found, nil
}

// otherExporters returns the ports of other nodes that share the session's folder, as on one machine. Their own
// collectors read them.
func otherExporters(root *os.Root, session string, node rayid.Node) ([]int, error) {
	entries, err := regular.Folder(root, session, maxEntries)
	if err != nil {
		return nil, fmt.Errorf("look for metrics: %w", err)
	}
	var others []int
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), portFile); ok && id != node.String() {
			if port, err := readPort(root, session, e.Name()); err == nil {
				others = append(others, port)
			}
		}
	}
	return others, nil
}

// readPort reads a port that Ray wrote to a file of the session; errNoTargets: there is no such file.
func readPort(root *os.Root, session, name string) (int, error) {
	data, err := regular.Read(root, filepath.Join(session, name), maxPortFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errNoTargets
	}
	if err != nil {
		return 0, err
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || port < 1 || port > 65535 {
		return 0, fmt.Errorf("%s contains no port", name)
	}
	return port, nil
}

// discoveredPorts lists the ports in the session's discovery file that are on this host, which is host or the loopback.
// There are none if Ray has not written the file.
func discoveredPorts(root *os.Root, session, host string) ([]int, error) {
	data, err := regular.Read(root, filepath.Join(session, discoveryFile), maxDiscoveryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var groups []struct {
		Targets []string `json:"targets"`
	}
	if err := json.Unmarshal(data, &groups); err != nil {
		return nil, fmt.Errorf("read %s: %w", discoveryFile, err)
	}
	var found []int
	for _, group := range groups {
		for _, target := range group.Targets {
			h, p, err := net.SplitHostPort(target)
			port, portErr := strconv.Atoi(p)
			isHere := h == host || h == "localhost" || net.ParseIP(h).IsLoopback()
			if err == nil && portErr == nil && port > 0 && port <= 65535 && isHere {
				found = append(found, port)
			}
		}
	}
	return found, nil
}

const (
	// maxRead bounds the time of reading one endpoint.
	maxRead = 10 * time.Second
	// seriesBytes is how many bytes of an answer one series may take on average; Ray's take about 350.
	seriesBytes = 1 << 10
	minAnswer   = 4 << 20
)

// client sends requests to ports of this host.
type client struct {
	http  *http.Client
	hosts []string
	limit int64 // bytes of an answer
}

// newClient makes a client of Ray's exporters. It follows no redirects and uses no proxy: they are on this node.
func newClient(o Options) *client {
	return &client{
		http: &http.Client{
			Transport: &http.Transport{
				Proxy: nil, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
				MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		// Ray's exporter listens on all addresses, or on the loopback if that is the node's.
		hosts: []string{"127.0.0.1", o.Host},
		limit: max(minAnswer, int64(o.MaxSeries)*seriesBytes),
	}
}

// errTooLong says that an answer is too long for Options.MaxSeries.
var errTooLong = errors.New("the answer is too long and its end is left out; raise --metrics-max-series")

// getMetrics asks a port for its metrics, at the loopback and, if nobody listens there, at the node's address. The
// caller closes the body, which ends with an error after c.limit bytes. Any status except 200 is an error.
func (c *client) getMetrics(ctx context.Context, port int) (io.ReadCloser, error) {
	var failed error
	for _, host := range c.hosts {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"http://"+net.JoinHostPort(host, strconv.Itoa(port))+"/metrics", nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept", "text/plain;version=0.0.4")
		resp, err := c.http.Do(r)
		if err != nil {
			failed = errors.Join(failed, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if resp.StatusCode != http.StatusOK {
			_ = resp.Body.Close()
			return nil, fmt.Errorf("status %d", resp.StatusCode)
		}
		return http.MaxBytesReader(nil, resp.Body, c.limit), nil
	}
	return nil, failed
}
