package main

import (
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/index"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// indexOptions are the settings about where indexes are kept.
type indexOptions struct {
	cacheDir   string
	cacheBytes settings.Bytes
}

func (o *indexOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.cacheDir, "index-cache-dir", filepath.Join(os.TempDir(), "historyserver-index"), "folder for the indexes of sessions whose store may not be written to; empty: none")
	o.cacheBytes = 10 << 30
	fs.Var(&o.cacheBytes, "index-cache-max-size", "disk space that indexes in --index-cache-dir may take; the oldest go")
}

// open gives what finds indexes and where they are put.
func (o *indexOptions) open(store blob.Store, root string, log logrus.FieldLogger) (*index.Opener, *index.Target) {
	var cache *index.Cache
	if o.cacheDir != "" {
		cache = index.NewCache(o.cacheDir, int64(o.cacheBytes))
	}
	return &index.Opener{Store: store, Cache: cache, Root: root, Log: log}, &index.Target{Store: store, Cache: cache, Root: root, Log: log}
}
