// Cmd writes packs of generated sessions:
//
//	go run ./internal/testkit/packgen/generate --sessions 1000 --dir build/bench/packs
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/packgen"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

func main() {
	var o packgen.Options
	dir := pflag.String("dir", "", "folder to write to, a local backend's --local-dir")
	pflag.IntVar(&o.Sessions, "sessions", 1000, "number of sessions")
	pflag.IntVar(&o.Days, "days", 30, "days over which they are spread")
	pflag.Uint64Var(&o.Seed, "seed", 1, "seed of what is random")
	pflag.Parse()
	if err := run(*dir, o); err != nil {
		fmt.Fprintln(os.Stderr, "packgen:", err)
		os.Exit(1)
	}
}

func run(dir string, o packgen.Options) error {
	if dir == "" {
		return errors.New("--dir is missing")
	}
	store, err := local.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(packgen.Write(context.Background(), packs.Packs{Store: store, Root: layout.DefaultRoot}, o),
		store.Close())
}
