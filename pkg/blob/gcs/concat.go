package gcs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/storage"

	"github.com/rayhistory/historyserver/pkg/blob"
)

const (
	// composeMost is how many objects the service joins at once.
	composeMost = 32
	// temporaryPrefix starts the keys of what is joined on the way to more: no layout's keys start so.
	temporaryPrefix = ".rayhistory-compose/"
)

// Concatenate implements blob.Concatenator: objects are composed by the service, 32 at a time, the results again.
func (s *Store) Concatenate(ctx context.Context, key string, sources []blob.Object) error {
	if err := s.concatenate(ctx, key, sources); err != nil {
		return fmt.Errorf("concatenate %s: %w", key, err)
	}
	return nil
}

func (s *Store) concatenate(ctx context.Context, key string, sources []blob.Object) error {
	parts := make([]*storage.ObjectHandle, 0, len(sources))
	for _, source := range sources {
		generation, err := strconv.ParseInt(source.ETag, 10, 64)
		if err != nil {
			return fmt.Errorf("source %s: its ETag %q is not one of this store", source.Key, source.ETag)
		}
		if source.Size > 0 {
			parts = append(parts, s.bucket.Object(source.Key).Generation(generation).If(storage.Conditions{GenerationMatch: generation}))
		}
	}
	if len(parts) == 0 {
		_, err := s.upload(ctx, s.bucket.Object(key), strings.NewReader(""))
		return err
	}
	var temporary []string
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		for _, key := range temporary {
			if err := s.Delete(ctx, key); err != nil {
				s.log.WithError(err).WithField("key", key).Warn("a temporary object is left")
			}
		}
	}()
	for len(parts) > composeMost {
		var joined []*storage.ObjectHandle
		for len(parts) > 0 {
			n := min(len(parts), composeMost)
			name := temporaryPrefix + rand.Text()
			temporary = append(temporary, name)
			object := s.bucket.Object(name)
			attrs, err := s.compose(ctx, object, parts[:n])
			if err != nil {
				return err
			}
			joined, parts = append(joined, object.Generation(attrs.Generation)), parts[n:]
		}
		parts = joined
	}
	_, err := s.compose(ctx, s.bucket.Object(key), parts)
	return err
}

// compose makes object of parts. It marks what it makes: where object is one of the parts, a repeat after a lost answer finds that
// part replaced, by itself.
func (s *Store) compose(ctx context.Context, object *storage.ObjectHandle, parts []*storage.ObjectHandle) (*storage.ObjectAttrs, error) {
	mark := rand.Text()
	composer := object.ComposerFrom(parts...)
	composer.ContentType = "application/octet-stream"
	composer.Metadata = map[string]string{composedBy: mark}
	var attrs *storage.ObjectAttrs
	err := s.do(ctx, "storage.objects.create, storage.objects.get and storage.objects.delete", func() (err error) {
		attrs, err = composer.Run(ctx)
		return err
	})
	if errors.Is(err, os.ErrExist) || errors.Is(err, os.ErrNotExist) {
		if attrs, err := s.attrs(ctx, object); err == nil && attrs.Metadata[composedBy] == mark {
			return attrs, nil
		}
		return nil, errChanged
	}
	return attrs, err
}

// composedBy is the metadata that says which composition made an object.
const composedBy = "rayhistory-composition"

// errChanged is neither os.ErrExist nor os.ErrNotExist, which would say something of the whole.
var errChanged = errors.New("an object was replaced since it was listed")
