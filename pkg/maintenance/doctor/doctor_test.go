package doctor

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
)

// refusing is a store that refuses some requests.
type refusing struct {
	blob.Store
	requests []string
}

func (s refusing) refuse(request string) error {
	if slices.Contains(s.requests, request) {
		return &blob.AccessError{Advice: "grant " + request, Err: errors.New("403")}
	}
	return nil
}

func (s refusing) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return errors.Join(s.refuse("create"), s.Store.Create(ctx, key, body))
}

func (s refusing) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return errors.Join(s.refuse("put"), s.Store.Put(ctx, key, body))
}

func (s refusing) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := s.refuse("get"); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key, offset, length)
}

func (s refusing) Delete(ctx context.Context, key string) error {
	if err := s.refuse("delete"); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// results are the first columns of a report: a result and the name of a check.
func results(r *Report) (all []string) {
	for line := range strings.Lines(r.String()) {
		all = append(all, strings.TrimSpace(line[:8])+" "+strings.TrimSpace(line[9:25]))
	}
	return all
}

func TestStore(t *testing.T) {
	collector := Rights{Prefix: "log/", Key: "log/a/doctor.txt", Creates: true}
	server := Rights{Prefix: "log/", Key: "log/a/doctor.txt", Reads: true, Writes: "no indexes",
		Deletes: "no retention"}
	for name, tt := range map[string]struct {
		of      Rights
		refused []string
		want    []string
		says    string
		stays   bool // the object
		failed  bool
	}{
		"collector": {of: collector, want: []string{"ok store: list", "ok store: write", "ok clock",
			"ok store: delete"}},
		"collector may only create": {of: collector, refused: []string{"delete", "get", "put"}, stays: true,
			want: []string{"ok store: list", "ok store: write", "ok clock", "ok store: delete"}, says: "not needed"},
		"collector may not create": {of: collector, refused: []string{"create"}, stays: true, failed: true,
			want: []string{"ok store: list", "failed store: write"}, says: "grant create"},
		"server": {of: server,
			want: []string{"ok store: list", "ok store: write", "ok store: read", "ok clock", "ok store: delete"}},
		"server may not read": {of: server, refused: []string{"get"}, failed: true, says: "grant get",
			want: []string{"ok store: list", "ok store: write", "failed store: read", "ok clock", "ok store: delete"}},
		"server may not write": {of: server, refused: []string{"put"}, stays: true,
			says: "no indexes: permission denied",
			want: []string{"ok store: list", "warning store: write"}},
		"server may not delete": {of: server, refused: []string{"delete"}, stays: true,
			says: "no retention: permission",
			want: []string{"ok store: list", "ok store: write", "ok store: read", "ok clock", "warning store: delete"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := refusing{must.Get(local.Open(t.TempDir()))(t), tt.refused}
			r := &Report{}
			r.Store(t.Context(), store, tt.of)
			if got := results(r); !slices.Equal(got, tt.want) || !strings.Contains(r.String(), tt.says) {
				t.Errorf("%q, want %q and %q:\n%s", got, tt.want, tt.says, r)
			}
			says.Equal(t, r.Err() != nil, tt.failed, r.Err())
			_, err := store.Stat(t.Context(), tt.of.Key)
			says.True(t, (err == nil) == tt.stays, "the object: %v", err)
		})
	}
	store := must.Get(local.Open(t.TempDir()))(t)
	must.OK(t, store.Create(t.Context(), collector.Key, strings.NewReader("of a run before")))
	r := &Report{}
	r.Store(t.Context(), store, collector)
	says.True(t, r.Err() == nil && strings.Contains(r.String(), "from a run before"), "a second run: %s", r)
}

func TestClock(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead time.Duration
		want  string
	}{
		"same":  {time.Second, "ok       clock            as the store's\n"},
		"ahead": {-17 * time.Minute, "failed   clock            17m0s ahead of the store's: correct it, by NTP for example\n"},
		"behind": {17*time.Minute + time.Second,
			"failed   clock            17m0s behind the store's: correct it, by NTP for example\n"},
	} {
		r := &Report{}
		if r.compareClocks(tt.ahead, time.Second); r.String() != tt.want {
			t.Errorf("%s: %q", name, r)
		}
	}
}

// TestSpace: what is free is compared with what is wanted, unless the file system does not know it, as that of /proc.
func TestSpace(t *testing.T) {
	for _, test := range []struct {
		dir    string
		want   int64
		result string
	}{{t.TempDir(), 1, "ok space"}, {t.TempDir(), 1 << 62, "warning space"}, {"/proc", 1 << 62, "ok space"}} {
		r := &Report{}
		if r.Space("space", "--dir", filepath.Join(test.dir, "not", "yet"), test.want); results(r)[0] != test.result {
			t.Errorf("%d bytes in %s: %s", test.want, test.dir, r)
		}
	}
}

func TestBundle(t *testing.T) {
	r := &Report{Program: "collector", Version: "v1"}
	r.Settings(errors.New("first mistake\nsecond mistake"))
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	var out strings.Builder
	if err := r.Finish(&out, file, "--a=b\n", []byte("up 1\n")); err == nil || err.Error() != "2 checks failed" {
		t.Errorf("%v\n%s", err, &out)
	}
	archive := tar.NewReader(must.Get(gzip.NewReader(must.Get(os.Open(file))(t)))(t))
	got := map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.OK(t, err)
		got[header.Name] = string(must.Get(io.ReadAll(archive))(t))
	}
	says.True(t, got["collector-doctor/checks.txt"] == r.String() &&
		got["collector-doctor/settings.txt"] == "--a=b\n" && got["collector-doctor/metrics.txt"] == "up 1\n" &&
		strings.HasPrefix(got["collector-doctor/versions.txt"], "collector v1\ngo"), "%q", got)
}

func TestArguments(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/local/bin/collector\x00--role=head\x00--s3-bucket\x00b\x00": "--role=head --s3-bucket b",
		"/usr/local/bin/historyserver\x00serve\x00--listen=:1\x00":        "",
		"/usr/local/bin/collector\x00":                                    "",
		"collector\x00serve\x00-x\x00":                                    "-x",
		"/bin/sh\x00-c\x00collector\x00":                                  "",
		"":                                                                "",
	} {
		says.Equal(t, strings.Join(argumentsOf("collector", []byte(line)), " "), want, "%q", line)
	}
}
