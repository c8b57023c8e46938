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
}

// Users are the callers the API server knows, besides service accounts: their token is "token-" and their name.
var Users = []string{"ann", "bob", "eve"}

// Start builds the API server if need be, starts it and installs the types of KubeRay's oldest version. It is stopped
// when the test ends.
func Start(t *testing.T) *Lab {
	t.Helper()
	return StartWith(t, KubeRays[0])
}

// StartWith is Start with another version of KubeRay.
func StartWith(t *testing.T, kubeRay string) *Lab {
	t.Helper()
	types := crds(t, kubeRay)
	l := &Lab{bin: Bin(t), dir: t.TempDir()}
	etcd, peer, api := freeport.Address(t), freeport.Address(t), strconv.Itoa(freeport.Port(t))
	l.Server = "https://127.0.0.1:" + api
	l.writeKeys(t)
	l.write(t, "tokens.csv", l.tokens())
	l.Kubeconfig = l.KubeconfigOf(t, "token-admin")

	l.run(t, filepath.Join(l.bin, "etcd"), "--data-dir=etcd", "--unsafe-no-fsync",
		"--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer,
		"--initial-cluster=default=http://"+peer)
	l.run(t, filepath.Join(l.bin, "kube-apiserver"), "--etcd-servers=http://"+etcd, "--cert-dir=certs",
		"--bind-address=127.0.0.1", "--secure-port="+api,
		// of no network: else it looks for the host's by the default route, which need not be there
		"--advertise-address=192.0.2.1",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=sa.pub",
		"--service-account-signing-key-file=sa.key",
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--token-auth-file=tokens.csv",
		// Without a controller nobody makes a namespace's default account.
		"--disable-admission-plugins=ServiceAccount")
	l.waitReady(t)
	l.install(t, types)
	return l
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

// run starts a process in the lab's folder; it is killed when the test ends, and its log is shown if the test failed.
func (l *Lab) run(t *testing.T, path string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(l.dir, filepath.Base(path)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			tail, _ := exec.Command("tail", "-n", "8", log.Name()).Output()
			t.Logf("%s:\n%s", filepath.Base(path), tail)
		}
	})
}

func (l *Lab) waitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		out, err := l.kubectl(ctx, "", "get", "--raw=/readyz")
		if err == nil && out == "ok" {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the API server does not become ready: %v %s", err, out)
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
