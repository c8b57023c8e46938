// List measures what people wait for in a list of many sessions: a server that starts with packs, its first page, the
// complete list, pages and searches, a new session, and the memory at most.
//
//	go run ./perf/list -binary ../build/historyserver            (in test/)
//	go run ./perf/list -sessions 1000000 -objects 20000 -s3
//
// Sessions are generated below -dir (a file each, and packs), and kept for the next run with as many; versitygw serves
// the same files to an S3 client. Prints lines of Markdown. Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/fleetgen"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/test/servers"
)

type options struct {
	binary, dir                 string
	sessions, objects, requests int
	s3, generate                bool
	again                       time.Duration
}

// bucket is the folder of the sessions below that of a run, where versitygw has its buckets.
const bucket = "sessions"

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "../build/historyserver", "the history server")
	flag.StringVar(&o.dir, "dir", "../build/bench/list", "where sessions are generated")
	flag.IntVar(&o.sessions, "sessions", 100_000, "sessions")
	flag.IntVar(&o.objects, "objects", 2_000, "sessions that have more objects than a marker")
	flag.IntVar(&o.requests, "requests", 200, "requests of each kind")
	flag.BoolVar(&o.s3, "s3", false, "serve the sessions by versitygw, and read them with the S3 driver")
	flag.DurationVar(&o.again, "again", 0,
		"ask a second time so long after the start, when an S3 server does not list a million markers any more")
	flag.BoolVar(&o.generate, "generate", false, "only generate the sessions")
	flag.Parse()
	if err := run(context.Background(), &o); err != nil {
		fmt.Fprintln(os.Stderr, "list:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	data, err := o.sessionsIn(ctx)
	if err != nil || o.generate {
		return err
	}
	storage, stop, err := o.storage(ctx, data)
	if err != nil {
		return err
	}
	defer stop()
	address, err := servers.FreeAddress("127.0.0.1:0")
	if err != nil {
		return err
	}
	cmd := exec.Command(o.binary, append([]string{"--listen", address}, storage...)...)
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
	first, err := until(base, began, func(page string) bool { return strings.Contains(page, "<tbody>") })
	if err != nil {
		return err
	}
	complete, err := until(base, began, func(page string) bool { return listed(page) >= o.sessions })
	if err != nil {
		return err
	}
	fmt.Printf("| %s sessions: first page; complete | %.2f s; %.2f s |\n", thousands(o.sessions), first.Seconds(),
		complete.Seconds())
	if err := o.questions(base, "at once"); err != nil {
		return err
	}
	found, err := o.newSession(base, data)
	if err != nil {
		return err
	}
	fmt.Printf("| a new session is listed after | %.0f s |\n", found.Seconds())
	if o.again > 0 {
		time.Sleep(time.Until(began.Add(o.again)))
		if err := o.questions(base, fmt.Sprintf("%v after the start", o.again)); err != nil {
			return err
		}
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

// questions asks for pages and searches, one after the other.
func (o *options) questions(base, when string) error {
	random := rand.New(rand.NewPCG(1, 2))
	for _, kind := range []struct {
		name string
		of   func() url.Values
	}{
		{"a page", func() url.Values { return url.Values{"page": {strconv.Itoa(1 + random.IntN(o.sessions/25))}} }},
		{"a search", func() url.Values {
			return url.Values{
				"q": {fmt.Sprintf("raysubmit_%08d", random.IntN(o.sessions))}}
		}},
		{"a search that finds many", func() url.Values {
			return url.Values{"q": {"memory user-" + strconv.Itoa(random.IntN(300))}}
		}},
		{"a search that finds a fifth", func() url.Values { return url.Values{"q": {"failed python"}} }},
		{"sorted by size", func() url.Values { return url.Values{"sort": {"-size"}} }},
		{"by owner", func() url.Values { return url.Values{"group": {"owner"}} }},
		{"by cluster", func() url.Values { return url.Values{"group": {"cluster"}} }},
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
		fmt.Printf("| %s, %s: p50; p99 | %.1f; %.1f ms |\n", kind.name, when, ms(times[len(times)/2]),
			ms(times[len(times)*99/100]))
	}
	return nil
}

// sessionsIn stores the sessions, unless an earlier run did, and gives the folder of the run.
func (o *options) sessionsIn(ctx context.Context) (string, error) {
	data, err := filepath.Abs(filepath.Join(o.dir, fmt.Sprintf("%d-%d", o.sessions, o.objects)))
	if err != nil {
		return "", err
	}
	done := filepath.Join(data, "generated")
	if _, err := os.Stat(done); err == nil {
		return data, nil
	}
	if err := os.RemoveAll(data); err != nil {
		return "", err
	}
	store, err := local.Open(store(data))
	if err != nil {
		return "", err
	}
	fleet := fleetgen.Options{Sessions: o.sessions, Objects: o.objects, End: time.Now().UTC()}
	if err := fleet.Write(ctx, unsynced{store, data}, layout.DefaultRoot); err != nil {
		return "", err
	}
	return data, errors.Join(store.Close(), os.WriteFile(done, nil, 0o600))
}

// store is the folder of the sessions, of a run's.
func store(data string) string { return filepath.Join(data, "data", bucket) }

// unsynced is a store in a folder whose objects need not be on disk. Their keys have no name that local would store
// under another.
type unsynced struct {
	*local.Store
	data string
}

func (u unsynced) Put(_ context.Context, key string, body io.ReadSeeker) error {
	path := filepath.Join(store(u.data), key)
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	err = os.WriteFile(path, content, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
	}
	return err
}

// storage gives the flags of the store, once it answers.
func (o *options) storage(ctx context.Context, data string) (flags []string, stop func(), err error) {
	if !o.s3 {
		return []string{"--storage-backend", "local", "--local-dir", store(data)}, func() {}, nil
	}
	server, err := servers.VersityGW.Start(ctx, "127.0.0.1:0", data)
	if err != nil {
		return nil, nil, err
	}
	return []string{
		"--storage-backend", "s3", "--s3-endpoint", server.URL, "--s3-force-path-style", "--s3-bucket", bucket,
		"--s3-access-key-id", server.AccessKey, "--s3-secret-access-key", server.SecretKey,
	}, server.Stop, nil
}

// newSession stores the markers of a session that begins, and gives the time until it is found, the longest of three.
func (o *options) newSession(base, data string) (longest time.Duration, err error) {
	files := unsynced{data: data}
	for n := range 3 {
		now := time.Now().UTC()
		ref := layout.Session{Namespace: "new", Cluster: "fresh",
			Name: now.Format("session_2006-01-02_15-04-05_") + fmt.Sprintf("%06d_%d", n, os.Getpid())}
		for _, key := range []string{layout.MarkerKey(layout.DefaultRoot, ref),
			layout.RecentKey(layout.DefaultRoot, ref, now)} {
			if err := files.Put(context.Background(), key, strings.NewReader("")); err != nil {
				return 0, err
			}
			defer func() { _ = os.Remove(filepath.Join(store(data), key)) }()
		}
		took, err := until(base+"?"+url.Values{"q": {ref.Name}}.Encode(), now,
			func(page string) bool { return strings.Contains(page, "/"+ref.Name) })
		if err != nil {
			return 0, err
		}
		longest = max(longest, took)
	}
	return longest, nil
}

// until asks for a page until it is as wanted, and gives the time since a moment.
func until(address string, began time.Time, wanted func(page string) bool) (time.Duration, error) {
	for time.Since(began) < 10*time.Minute {
		status, body, err := ask(address)
		if err == nil && status == http.StatusOK && wanted(string(body)) {
			return time.Since(began), nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0, fmt.Errorf("%s is not as wanted after ten minutes", address)
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

// of finds the number of sessions in a page. There may be more than were generated: packs keep for a while those that
// an earlier run began.
var of = regexp.MustCompile(`([0-9,]+) sessions of`)

func listed(page string) int {
	found := of.FindStringSubmatch(page)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
	return n
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
