// Package lab is a Kubernetes API server for tests: the real one, with etcd, RBAC and KubeRay's types, on loopback.
// There is no kubelet and no controller, so objects stay what tests make them.
package lab

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
)

// Lab is a running API server.
type Lab struct {
	Server     string // https://127.0.0.1:…
	Kubeconfig string // of the administrator
	bin, dir   string
	files      int

	end       context.CancelFunc // of the start, and of the processes
	started   chan struct{}      // closed when the start is over, with the processes or an error
	processes []*exec.Cmd
	err       error
}

// Users are the callers the API server knows, besides service accounts: their token is "token-" and their name.
var Users = []string{"ann", "bob", "eve"}

// next is the lab that the next test gets.
var next *Lab

// Start builds the API server if need be, starts it and installs the types of KubeRay's oldest version. It is stopped
// when the test ends. Its start takes seconds, so the next test's begins while this one runs.
func Start(t *testing.T) *Lab {
	t.Helper()
	if next == nil {
		next = begin(t, KubeRays[0])
	}
	l := next
	next = nil
	l.give(t)
	next = begin(t, KubeRays[0])
	return l
}

// StartWith is Start with another version of KubeRay.
func StartWith(t *testing.T, kubeRay string) *Lab {
	t.Helper()
	if kubeRay == KubeRays[0] {
		return Start(t)
	}
	l := begin(t, kubeRay)
	l.give(t)
	return l
}

// StopNext stops the lab that no test got, after all tests.
func StopNext() {
	if next != nil {
		next.stop()
	}
}

// begin starts a lab in the background. Its ports are kept for it until the test ends, when it listens on them.
func begin(t *testing.T, kubeRay string) *Lab {
	t.Helper()
	types := crds(t, kubeRay)
	dir, err := os.MkdirTemp("", "lab-")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Lab{bin: Bin(t), dir: dir, started: make(chan struct{}), end: cancel}
	etcd, peer, api := freeport.Address(t), freeport.Address(t), strconv.Itoa(freeport.Port(t))
	l.Server = "https://127.0.0.1:" + api
	l.writeKeys(t)
	l.write(t, "tokens.csv", l.tokens())
	l.Kubeconfig = l.KubeconfigOf(t, "token-admin")
	go func() {
		defer close(l.started)
		l.err = l.boot(ctx, etcd, peer, api, types)
	}()
	return l
}

func (l *Lab) boot(ctx context.Context, etcd, peer, api string, types []string) error {
	err := l.run(ctx, "etcd", "--data-dir=etcd", "--unsafe-no-fsync",
		"--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer,
		"--initial-cluster=default=http://"+peer)
	if err != nil {
		return err
	}
	err = l.run(ctx, "kube-apiserver", "--etcd-servers=http://"+etcd, "--cert-dir=certs",
		"--bind-address=127.0.0.1", "--secure-port="+api,
		// of no network: else it looks for the host's by the default route, which need not be there
		"--advertise-address=192.0.2.1",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=sa.pub",
		"--service-account-signing-key-file=sa.key",
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--token-auth-file=tokens.csv",
		// Without a controller nobody makes a namespace's default account.
		"--disable-admission-plugins=ServiceAccount")
	if err != nil {
		return err
	}
	if err := l.waitReady(ctx); err != nil {
		return err
	}
	return l.install(ctx, types)
}

// give makes the lab, once it has started, a test's: it is stopped when the test ends, and its logs are shown if the
// test failed.
func (l *Lab) give(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := exec.Command("tail", "-n", "8", filepath.Join(l.dir, "etcd.log"),
				filepath.Join(l.dir, "kube-apiserver.log")).Output()
			t.Logf("%s", logs)
		}
		l.stop()
	})
	if <-l.started; l.err != nil {
		t.Fatal(l.err)
	}
}

func (l *Lab) stop() {
	l.end()
	<-l.started
	for _, p := range l.processes {
		_ = p.Wait()
	}
	_ = os.RemoveAll(l.dir)
}

func (l *Lab) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (l *Lab) writeKeys(t *testing.T) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	l.write(t, "sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	l.write(t, "sa.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))
}

func (l *Lab) tokens() string {
	lines := "token-admin,admin,0,system:masters\n"
	for i, u := range Users {
		lines += fmt.Sprintf("token-%s,%s,%d\n", u, u, i+1)
	}
	return lines
}

// KubeconfigOf writes a kubeconfig for the owner of a token.
func (l *Lab) KubeconfigOf(t *testing.T, token string) string {
	t.Helper()
	l.files++
	name := fmt.Sprintf("kubeconfig-%d", l.files)
	l.write(t, name, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: lab, user: {token: %q}}]
contexts: [{name: lab, context: {cluster: lab, user: lab}}]
current-context: lab
`, l.Server, token))
	return filepath.Join(l.dir, name)
}

// run starts one of the programs in the lab's folder, with its log.
func (l *Lab) run(ctx context.Context, program string, args ...string) error {
	log, err := os.Create(filepath.Join(l.dir, program+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, program), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	l.processes = append(l.processes, cmd)
	return nil
}

func (l *Lab) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		out, err := l.kubectl(ctx, "", "get", "--raw=/readyz")
		if err == nil && out == "ok" {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the API server does not become ready: %w %s", err, out)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (l *Lab) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, "kubectl"),
		append([]string{"--kubeconfig=" + l.Kubeconfig, "--cache-dir=" + filepath.Join(l.dir, "kubectl")}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Kubectl runs kubectl as the administrator; an error ends the test.
func (l *Lab) Kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := l.kubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs kubectl as the administrator and gives its error back.
func (l *Lab) Try(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	return l.kubectl(t.Context(), stdin, args...)
}

// TokenOf makes a token of a service account.
func (l *Lab) TokenOf(t *testing.T, namespace, account string) string {
	t.Helper()
	return strings.TrimSpace(l.Kubectl(t, "", "create", "token", "-n", namespace, account))
}

// Eventually waits for something that takes the API server a moment.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
