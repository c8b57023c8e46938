package backends

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/test/servers"
)

// TestLeastPermissions: with no more than the permissions to create and to list, as collectors have, a collector's
// operations succeed; the others fail with the name of what is missing.
func TestLeastPermissions(t *testing.T) {
	t.Parallel()
	missing := map[string]map[string]string{ // by server and operation, a part of the error
		servers.VersityGW.Name: {"get": "s3:GetObject", "put": "s3:PutObject", "delete": "s3:DeleteObject"},
		servers.FakeGCS.Name: {"get": "storage.objects.get", "put": "storage.objects.create",
			"delete": "storage.objects.delete"},
		servers.Azurite.Name: {"get": "blobs/read", "put": "blobs/write", "delete": "blobs/delete"},
		"oss":                {"get": "oss:GetObject", "put": "oss:PutObject", "delete": "oss:DeleteObject"},
	}
	for _, kind := range guardedKinds {
		if missing[kind.server] == nil {
			continue
		}
		t.Run(kind.server, func(t *testing.T) {
			want(t, kind.server)
			g := kind.start(t, 0, stall)
			s, _ := g.open(t, g.proxy.URL)
			g.guard(t, s)
			collect(t, s)
			refused(t, s, missing[kind.server])
		})
	}
}

// collect does what a collector does.
func collect(t *testing.T, s blob.Creator) {
	for key, body := range map[string][]byte{"log/metadir/session": nil, "log/events": []byte("{}\n"),
		"log/large": bytes.Repeat([]byte("0123456789abcdef"), 70<<16)} {
		says.OK(t, s.Create(t.Context(), key, bytes.NewReader(body)), "create")
		says.ErrorIs(t, s.Create(t.Context(), key, strings.NewReader("again")), os.ErrExist, "create again")
	}
	var keys []string
	for o, err := range s.List(t.Context(), "log/", blob.ListOptions{}) {
		must.OK(t, err)
		keys = append(keys, o.Key)
	}
	says.Equal(t, strings.Join(keys, " "), "log/events log/large log/metadir/session", "listed")
}

// refused expects errors that name the missing permission.
func refused(t *testing.T, s blob.Store, missing map[string]string) {
	_, getErr := s.Get(t.Context(), "log/events", 0, -1)
	for operation, err := range map[string]error{
		"get":    getErr,
		"put":    s.Put(t.Context(), "log/events", strings.NewReader("x")),
		"delete": s.Delete(t.Context(), "log/events"),
	} {
		if !errors.Is(err, blob.ErrPermission) || !strings.Contains(err.Error(), missing[operation]) {
			t.Errorf("%s: %v, want ErrPermission and %s", operation, err, missing[operation])
		}
	}
}
