// List measures what people wait for in a list of many sessions: a server that starts with packs, its first page, the complete list, pages and
// searches, and the memory at most.
//
//	go run ./perf/list -binary ../build/historyserver            (in test/)
//	go run ./perf/list -sessions 1000000 -objects 20000
//
// Sessions are generated below -dir (a file each, and packs), and kept for the next run with as many. Prints lines of Markdown. Linux only.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/fleetgen"
	"github.com/rayhistory/historyserver/pkg/blob/local"
)

type options struct {
	binary, dir                 string
	sessions, objects, requests int
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "../build/historyserver", "the history server")
	flag.StringVar(&o.dir, "dir", "../build/bench/list", "where sessions are generated")
	flag.IntVar(&o.sessions, "sessions", 100_000, "sessions")
	flag.IntVar(&o.objects, "objects", 2_000, "sessions that have more objects than a marker")
	flag.IntVar(&o.requests, "requests", 200, "requests of each kind")
	flag.Parse()
	if err := run(context.Background(), &o); err != nil {
		fmt.Fprintln(os.Stderr, "list:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	data, err := o.generate(ctx)
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	cmd := exec.Command(o.binary, "--listen", address, "--storage-backend", "local", "--local-dir", data)
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	base := "http://" + address + "/homepage"
	first, err := until(base, began, "<tbody>")
	if err != nil {
		return err
	}
	complete, err := until(base, began, fmt.Sprintf("%s sessions of", thousands(o.sessions)))
	if err != nil {
		return err
	}
	fmt.Printf("| %s sessions: first page; complete | %.2f s; %.2f s |\n", thousands(o.sessions), first.Seconds(), complete.Seconds())
	random := rand.New(rand.NewPCG(1, 2))
	for _, kind := range []struct {
		name string
		of   func() url.Values
	}{
		{"a page", func() url.Values { return url.Values{"page": {strconv.Itoa(1 + random.IntN(o.sessions/25))}} }},
		{"a search", func() url.Values { return url.Values{"q": {fmt.Sprintf("raysubmit_%08d", random.IntN(o.sessions))}} }},
		{"a search that finds many", func() url.Values { return url.Values{"q": {"memory user-" + strconv.Itoa(random.IntN(300))}} }},
		{"sorted by size", func() url.Values { return url.Values{"sort": {"-size"}} }},
		{"by owner", func() url.Values { return url.Values{"group": {"owner"}} }},
	} {
		times := make([]time.Duration, o.requests)
		for i := range times {
			began := time.Now()
			if status, _, err := ask(base + "?" + kind.of().Encode()); err != nil || status != http.StatusOK {
				return fmt.Errorf("%s: status %d, %w", kind.name, status, err)
			}
			times[i] = time.Since(began)
		}
		slices.Sort(times)
		fmt.Printf("| %s: p50; p99 | %.1f; %.1f ms |\n", kind.name, ms(times[len(times)/2]), ms(times[len(times)*99/100]))
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "RssAnon") {
			fmt.Printf("| %s |\n", strings.Join(strings.Fields(line), " "))
		}
	}
	return nil
}

// generate stores the sessions, unless an earlier run did, and gives the folder.
func (o *options) generate(ctx context.Context) (string, error) {
	data := filepath.Join(o.dir, fmt.Sprintf("%d-%d", o.sessions, o.objects))
	done := filepath.Join(data, "generated")
	if _, err := os.Stat(done); err == nil {
		return data, nil
	}
	if err := os.RemoveAll(data); err != nil {
		return "", err
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return "", err
	}
	store, err := local.Open(data)
	if err != nil {
		return "", err
	}
	fleet := fleetgen.Options{Sessions: o.sessions, Objects: o.objects, End: time.Now().UTC()}
	if err := fleet.Write(ctx, store, "log"); err != nil {
		return "", err
	}
	return data, errors.Join(store.Close(), os.WriteFile(done, nil, 0o600))
}

// until asks for a page until it has a text, and gives the time since a moment.
func until(page string, began time.Time, text string) (time.Duration, error) {
	for time.Since(began) < 10*time.Minute {
		status, body, err := ask(page)
		if err == nil && status == http.StatusOK && bytes.Contains(body, []byte(text)) {
			return time.Since(began), nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0, fmt.Errorf("%s has no %q after ten minutes", page, text)
}

func ask(page string) (status int, body []byte, err error) {
	answer, err := http.Get(page)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err = io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// thousands writes a number as pages do.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
