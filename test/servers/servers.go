// Package servers builds object store servers from their Go modules, or gets them from npm, by exact version, and runs
// them for tests on 127.0.0.1. Nothing is installed: binaries are kept in the user's cache folder, and a server's data
// in a folder the caller gives.
package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/buildcache"
)

// Server is a running server.
type Server struct {
	// URL is its endpoint, as http://127.0.0.1:9000.
	URL string
	// AccessKey and SecretKey are the root account of an S3 server.
	AccessKey, SecretKey string

	command *exec.Cmd
	log     *os.File
	exited  chan struct{}
	err     error // why it exited, once that is closed
}

// Kind describes how one server program is obtained and started.
type Kind struct {
	// Name is the program's, and the kind's for tests.
	Name string
	// Module and Version name the Go module the program is built from, Package its main package. NPM is set instead of
	// Module for a program that is an npm package's.
	Module, NPM, Version, Package string
	// folders are made in the data folder first.
	folders []string
	// run gives the arguments and environment to listen on address and keep data in dir.
	run func(address, dir string) (args, env []string)
	// ready is the path that answers (with any status below 500) once the server serves.
	ready string
}

const (
	accessKey = "test-access"
	secretKey = "test-secret-key"
)

// VersityGW is an S3 server that keeps objects as files; small, and strict about signatures.
var VersityGW = Kind{
	Name: "versitygw", Module: "github.com/versity/versitygw", Version: "v1.8.0", Package: "/cmd/versitygw", ready: "/",
	folders: []string{"data", "meta"},
	run: func(address, dir string) (args, env []string) {
		// Metadata in files beside: not every file system has the extended attributes that it would use.
		return []string{"--quiet", "--keep-alive", "--port", address, "--access", accessKey, "--secret", secretKey,
			"posix", "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "data")}, nil
	},
}

// MinIO is the S3 server that most test clusters run. Its releases have no module versions, hence the commit's.
var MinIO = Kind{
	// its own health paths say yes before it takes requests
	Name: "minio", Module: "github.com/minio/minio", Version: "v0.0.0-20260212201848-7aac2a2c5b7c", ready: "/",
	run: func(address, dir string) (args, env []string) {
		return []string{"server", "--quiet", "--address", address, "--console-address", "127.0.0.1:0", dir},
			[]string{"MINIO_ROOT_USER=" + accessKey, "MINIO_ROOT_PASSWORD=" + secretKey, "MINIO_UPDATE=off",
				"MINIO_BROWSER=off",
				// A disk that is slow for half a minute, as that of a busy machine, counts as broken to it.
				"MINIO_DRIVE_MAX_TIMEOUT=10m", "_MINIO_DRIVE_ACTIVE_MONITORING=off"}
	},
}

// FakeGCS answers Google Cloud Storage's JSON API.
var FakeGCS = Kind{
	Name: "fake-gcs-server", Module: "github.com/fsouza/fake-gcs-server", Version: "v1.56.1",
	ready: "/_internal/healthcheck",
	run: func(address, dir string) (args, env []string) {
		host, port, _ := net.SplitHostPort(address)
		return []string{"-scheme", "http", "-host", host, "-port", port, "-public-host", address, "-external-url",
			"http://" + address, "-backend", "memory", "-log-level", "warn"}, nil
	},
}

// Azurite is Microsoft's own emulator of Azure Blob Storage; it has one account, AzuriteAccount.
var Azurite = Kind{
	Name: "azurite-blob", NPM: "azurite", Version: "3.37.0", ready: "/",
	run: func(address, dir string) (args, env []string) {
		host, port, _ := net.SplitHostPort(address)
		// The SDK asks for a version of the protocol that is newer than it knows.
		return []string{"--blobHost", host, "--blobPort", port, "--location", dir, "--silent", "--skipApiVersionCheck",
			"--disableTelemetry"}, nil
	},
}

// AzuriteAccount and AzuriteKey are the account that every Azurite has, as its documentation says.
const (
	AzuriteAccount = "devstoreaccount1"
	AzuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Kinds are all servers.
var Kinds = []Kind{VersityGW, MinIO, FakeGCS, Azurite}

// Start builds the server if need be and runs it on address ("127.0.0.1:0" for a free port) with its data in dir. It is
// up when Start returns. It must be stopped; it also ends when this process does.
func (k Kind) Start(ctx context.Context, address, dir string) (*Server, error) {
	program, err := k.Build(ctx)
	if err != nil {
		return nil, err
	}
	// A free port may be taken by another process before the server binds it.
	for attempt := 0; ; attempt++ {
		s, err := k.start(ctx, program, address, dir)
		if err == nil || attempt == 3 || !strings.HasSuffix(address, ":0") || ctx.Err() != nil {
			return s, err
		}
	}
}

func (k Kind) start(ctx context.Context, program, address, dir string) (*Server, error) {
	address, err := FreeAddress(address)
	if err != nil {
		return nil, err
	}
	for _, folder := range k.folders {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	args, env := k.run(address, dir)
	return launch(ctx, k.Name, "http://"+address, k.ready, dir, exec.Command(program, args...), env)
}

// launch runs a prepared command and waits until the URL answers.
func launch(ctx context.Context, name, url, ready, dir string, command *exec.Cmd, env []string) (*Server, error) {
	logFile, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	command.Env = append(os.Environ(), env...)
	command.Dir = dir
	command.Stdout, command.Stderr = logFile, logFile
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s := &Server{URL: url, AccessKey: accessKey, SecretKey: secretKey, command: command, log: logFile,
		exited: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		s.err = command.Wait()
		close(s.exited)
	}()
	if err := s.wait(ctx, url+ready); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start %s: %w; its log ends:\n%s", name, err, tail(logFile.Name()))
	}
	return s, nil
}

func (s *Server) wait(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode < http.StatusInternalServerError {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer from %s: %w", url, ctx.Err())
		case <-s.exited:
			return fmt.Errorf("exited: %w", s.err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Exited is closed when the server has ended, by itself or stopped.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Stop ends the server: asked, and after two seconds forced.
func (s *Server) Stop() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(2 * time.Second):
		_ = s.command.Process.Kill()
		<-s.exited
	}
	_ = s.log.Close()
}

// FreeAddress replaces port 0 by one that is free now.
func FreeAddress(address string) (string, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	address = listener.Addr().String()
	return address, listener.Close()
}

// Log is the end of what the server printed.
func (s *Server) Log() string { return tail(s.log.Name()) }

// tail is the last lines of a file.
func tail(name string) string {
	file, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	var lines []string
	for scanner := bufio.NewScanner(io.LimitReader(file, 1<<20)); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Build gives the path of the server's program, building it on the first use of its version.
func (k Kind) Build(ctx context.Context) (string, error) {
	folder, err := buildcache.Folder(k.Name+"@"+k.Version, func(dir string) error {
		command := exec.CommandContext(ctx, "go", "install", "-ldflags=-s -w", k.Module+k.Package+"@"+k.Version)
		if k.NPM != "" {
			command = exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--prefix", dir,
				k.NPM+"@"+k.Version)
		}
		command.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOGC=400")
		command.Dir = dir // outside of any module
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, output)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if k.NPM != "" {
		return filepath.Join(folder, "node_modules", ".bin", k.Name), nil
	}
	return filepath.Join(folder, k.Name), nil
}
