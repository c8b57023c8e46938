package webhooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// The test binary starts itself as a replica that is to be killed: these variables tell it so.
const addressVariable, dirVariable = "WEBHOOKS_TEST_RECEIVER", "WEBHOOKS_TEST_DIR"

func TestMain(m *testing.M) {
	if address := os.Getenv(addressVariable); address != "" {
		if err := runReplica(address, os.Getenv(dirVariable)); err != nil {
			logrus.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	killedSessions = 200
	// killedLease is how long a killed replica's sessions wait for another one.
	killedLease = 10 * time.Second
)

// end is when the sessions of killed replicas ended: the same for all of them.
var end = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func runReplica(address, dir string) error {
	store, err := local.Open(dir)
	if err != nil {
		return err
	}
	s := replica(store, configOf(address), killedLease, ended(killedSessions, end))
	s.opts.Timing.GiveUp = 1000000 * time.Hour
	s.Start()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() { // it ends with the test, however that does
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	<-ctx.Done()
	s.Close()
	return nil
}

// TestKilledReplicas: three processes tell a receiver that fails two thirds, and are killed again and again while they
// do.
func TestKilledReplicas(t *testing.T) {
	const replicas, kills = 3, 6
	in, dir := newInbox(t), t.TempDir()
	store := must.Get(local.Open(dir))(t)
	defer func() { _ = store.Close() }()
	begin(t, store)
	start := func() *exec.Cmd {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), addressVariable+"="+in.URL, dirVariable+"="+dir)
		c.Stderr = os.Stderr
		must.Get(c.StdinPipe())(t)
		must.OK(t, c.Start())
		return c
	}
	var running [replicas]*exec.Cmd
	for i := range running {
		running[i] = start()
	}
	defer func() {
		for _, c := range running {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	random := rand.New(rand.NewPCG(3, 4))
	for kill := range kills {
		// Each kill comes when some more is told, so that it hits replicas at work.
		must.Happen(t, "that more is told", func() bool {
			events, _ := in.counts()
			return events >= (kill+1)*killedSessions*perSession/(2*kills)
		})
		i := random.IntN(replicas)
		must.OK(t, running[i].Process.Signal(syscall.SIGKILL))
		_ = running[i].Wait()
		running[i] = start()
	}
	must.Happen(t, "that all is told", func() bool {
		events, _ := in.counts()
		return events == killedSessions*perSession
	})
	in.check(t, killedSessions*perSession)
}

// TestSlowNamespaceDoesNotDelayOthers: sessions whose data takes for ever to read end with an unknown outcome, one
// after the other, and the sessions of other namespaces are told meanwhile. More sessions than there is room for are no
// obstacle either.
func TestSlowNamespaceDoesNotDelayOthers(t *testing.T) {
	const slow = maxWork + 20
	in, store := calm(t)
	sessions := ended(slow+3, time.Now().Add(-time.Minute))
	for i := range sessions {
		sessions[i].Ref.Namespace = "a"
	}
	others := sessions[slow:] // the newest, so they are found last
	for i := range others {
		others[i].Ref.Namespace = fmt.Sprint("b", i)
	}
	var mu sync.Mutex
	var looked []string
	o := options(store, configOf(in.URL), time.Minute, sessions)
	o.Timing.Turn = time.Second // in which a busy machine, too, sends events
	o.Findings = func(ctx context.Context, e catalog.Entry) (*findings.Report, error) {
		mu.Lock()
		looked = append(looked, e.Ref.Namespace)
		mu.Unlock()
		if e.Ref.Namespace == "a" {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return look(ctx, e)
	}
	s := New(o)
	s.Start()
	defer s.Close()
	must.Happen(t, "that the other namespaces' sessions are told", func() bool {
		events, _ := in.counts()
		return events == len(others)*perSession
	})
	mu.Lock()
	defer mu.Unlock()
	if n := len(looked); n > 40 { // some of them while b's were claimed
		t.Errorf("%d looks for %d sessions", n, len(others))
	}
}

// TestSlowSessionIsGivenUp: a session that takes longer than a claim is told with the outcome unknown, though nobody
// else waits.
func TestSlowSessionIsGivenUp(t *testing.T) {
	in, store := calm(t)
	s := replica(store, configOf(in.URL), 200*time.Millisecond, ended(1, time.Now().Add(-time.Minute)))
	s.opts.Findings = func(ctx context.Context, e catalog.Entry) (*findings.Report, error) {
		<-ctx.Done()
		return nil, errors.New("some error that says nothing of the context")
	}
	s.runUntil(t, 1)
	events, _ := in.told()
	says.True(t, len(events) == 1 && events[0].Type == SessionEnded, "%+v", events)
}
