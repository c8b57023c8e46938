// Objectstore runs one object store server until it is told to stop, for scripts:
//
//	go build -o /tmp/objectstore ./servers/objectstore
//	/tmp/objectstore -kind versitygw -port 9000 -dir /tmp/store &
//
// When the server is up it prints one line of shell assignments and keeps running; SIGTERM or SIGINT stops both.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/rayhistory/historyserver/test/servers"
)

func main() {
	kind := flag.String("kind", "versitygw", "versitygw, minio, fake-gcs-server or azurite-blob")
	port := flag.Int("port", 0, "port on 127.0.0.1; 0: a free one")
	dir := flag.String("dir", "", "folder of the server's data and log; empty: a temporary one that is removed")
	flag.Parse()
	if err := run(*kind, *port, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "objectstore:", err)
		os.Exit(1)
	}
}

func run(kind string, port int, dir string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	i := slices.IndexFunc(servers.Kinds, func(k servers.Kind) bool { return k.Name == kind })
	if i < 0 {
		return fmt.Errorf("-kind=%q: want versitygw, minio, fake-gcs-server or azurite-blob", kind)
	}
	if dir == "" {
		temporary, err := os.MkdirTemp("", "objectstore-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(temporary) }()
		dir = temporary
	}
	server, err := servers.Kinds[i].Start(ctx, fmt.Sprintf("127.0.0.1:%d", port), dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	fmt.Printf("URL=%s ACCESS_KEY=%s SECRET_KEY=%s\n", server.URL, server.AccessKey, server.SecretKey)
	select {
	case <-ctx.Done():
		return nil
	case <-server.Exited():
		return fmt.Errorf("%s ended by itself; see its log in %s", kind, dir)
	}
}
