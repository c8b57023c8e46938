package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// pageSize is how many keys a listing asks for at once: as many as the service gives.
const pageSize = 1000

// Get implements blob.Reader. A download that is continued asks for the same generation of the object.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (_ io.ReadCloser, err error) {
	defer remote.NameError(&err, "get", key)
	object := s.bucket.Object(key)
	open := func(ctx context.Context, _ string, offset, length int64) (remote.Answer, error) {
		if length < 0 {
			// With an end the answer has the object's size in Content-Range. With Content-Length alone, a value that is
			// too small would be noticed only when the download is closed, after its bytes were used. The price is the
			// SDK's checksum, which it compares for complete objects only; TLS has one too.
			length = math.MaxInt64 - offset
		}
		var reader *storage.Reader
		err := s.runWithRetries(ctx, "storage.objects.get", func() (err error) {
			stored := object.ReadCompressed(true) // as it is stored: what is compressed is not decompressed
			reader, err = stored.NewRangeReader(ctx, offset, length)
			return err
		})
		if err != nil {
			return remote.Answer{}, remote.OpenError(statusOf(err), err, err) // runWithRetries has mapped it
		}
		if reader.Attrs.Generation <= 0 { // every object has one
			_ = reader.Close()
			return remote.Answer{}, errNotGCS
		}
		object = object.Generation(reader.Attrs.Generation) // the same version when it is asked again
		return remote.Answer{Body: reader, Size: reader.Attrs.Size}, nil
	}
	stat := func() error {
		_, err := s.attrs(ctx, object)
		return err
	}
	return remote.NewReader(ctx, open, stat, offset, length)
}

// errNotGCS is the error of a good answer that is no object of the service: it has no generation.
var errNotGCS = errors.New("this is not the answer of Google Cloud Storage: correct --gcs-endpoint, or the proxy " +
	"before it")

// statusOf is the HTTP status in an error; 0 if there is none.
func statusOf(err error) int {
	if refused, ok := errors.AsType[*googleapi.Error](err); ok {
		return refused.Code
	}
	return 0
}

func (s *Store) Stat(ctx context.Context, key string) (blob.Object, error) {
	attrs, err := s.attrs(ctx, s.bucket.Object(key))
	if err != nil {
		return blob.Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return objectOf(attrs).Object, nil
}

func (s *Store) attrs(ctx context.Context, object *storage.ObjectHandle) (attrs *storage.ObjectAttrs, err error) {
	err = s.runWithRetries(ctx, "storage.objects.get", func() (err error) {
		if attrs, err = object.Attrs(ctx); err == nil && attrs.Generation <= 0 {
			err = errNotGCS
		}
		return err
	})
	return attrs, err
}

// objectOf describes an object or a folder of a listing. The generation, a number that every write makes a new one,
// serves as ETag.
func objectOf(attrs *storage.ObjectAttrs) remote.Object {
	if attrs.Prefix != "" {
		return remote.Object{Object: blob.Object{Key: attrs.Prefix, Prefix: true}}
	}
	return remote.Object{MD5: attrs.MD5, Object: blob.Object{Key: attrs.Name, Size: attrs.Size, ModTime: attrs.Updated,
		ETag: strconv.FormatInt(attrs.Generation, 10)}}
}

func (s *Store) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	query := &storage.Query{Prefix: prefix, StartOffset: opts.StartAfter}
	if opts.Delimited {
		query.Delimiter = "/"
	}
	return remote.List(prefix, opts, func(token string) ([]remote.Object, string, error) {
		return s.listPage(ctx, query, token)
	})
}

// listPage requests a page, as remote.List asks for it.
func (s *Store) listPage(ctx context.Context, query *storage.Query, token string) (page []remote.Object,
	next string, err error) {
	var attrs []*storage.ObjectAttrs
	if err := query.SetAttrSelection([]string{"Name", "Size", "Updated", "Generation", "MD5"}); err != nil {
		return nil, "", err
	}
	err = s.runWithRetries(ctx, "storage.objects.list", func() (err error) {
		attrs = nil
		next, err = iterator.NewPager(s.bucket.Objects(ctx, query), pageSize, token).NextPage(&attrs)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	page = make([]remote.Object, len(attrs))
	for i, a := range attrs {
		page[i] = objectOf(a)
	}
	return page, next, nil
}

// findKey looks a key up. It needs only the permission to list.
func (s *Store) findKey(ctx context.Context, key string) (remote.Object, error) {
	page, _, err := s.listPage(ctx, &storage.Query{Prefix: key}, "")
	return remote.Lookup(page, key, err)
}
