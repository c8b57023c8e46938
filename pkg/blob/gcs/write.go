package gcs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

const (
	// chunk is how much of an object is sent, and so held in memory, at once.
	chunk = 16 << 20
	// chunkUnit is what the service wants chunks to be multiples of.
	chunkUnit = 256 << 10
)

// send is a remote.One, for large objects too. attempts is how often the body was, or may have been, sent.
func (s *Store) send(ctx context.Context, key string, body io.ReadSeeker, size int64, createOnly bool) (attempts int,
	err error) {
	object, permission := s.bucket.Object(key), "storage.objects.create and storage.objects.delete"
	if createOnly {
		object, permission = object.If(storage.Conditions{DoesNotExist: true}), "storage.objects.create"
	}
	sent := 0  // how often the body was begun
	asked := 0 // how often the SDK asked whether to repeat a request: after each failure, also after the last
	body = remote.Body(body)
	err = s.runWithRetries(ctx, permission, func() error {
		sent++
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		// Only a cancelled context keeps the writer from storing what it has when it is closed.
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		failed := 0 // of asked, those of this upload
		w := object.Retryer(storage.WithErrorFunc(func(err error) bool {
			asked, failed = asked+1, failed+1
			// The SDK repeats a single request without end. Those of chunks it repeats for half a minute.
			return shouldRetry(err) && (size >= chunk || failed < remote.MaxAttempts)
		})).NewWriter(ctx)
		w.ContentType = "application/octet-stream"
		// An object that is smaller than its chunk is sent, and repeated, by one request: so the chunk is the least
		// multiple of chunkUnit above size, but at most chunk.
		w.ChunkSize = int(min(size/chunkUnit*chunkUnit+chunkUnit, chunk))
		if _, err := io.Copy(w, body); err != nil {
			cancel(err)
			_ = w.Close()
			return markLostUpload(err, size)
		}
		closed := w.Close()
		if closed == nil && w.Attrs().Generation <= 0 { // another server may have answered, such as a proxy
			return errNotGCS
		}
		return markLostUpload(closed, size)
	})
	// The service may look at rights before it looks at conditions: only replacing an object takes the right to delete.
	if refused, ok := errors.AsType[*googleapi.Error](err); createOnly && ok && refused.Code == http.StatusForbidden &&
		strings.Contains(refused.Message, "storage.objects.delete") {
		err = os.ErrExist
	}
	return max(sent, asked), err
}

// markLostUpload marks "not found" as the error of an upload in chunks. The upload may be gone because an attempt whose
// answer was lost completed it, or because it expired. Then the upload starts over.
func markLostUpload(err error, size int64) error {
	if size >= chunk && statusOf(err) == http.StatusNotFound {
		return uploadError{err}
	}
	return err
}

type uploadError struct{ error }

func (e uploadError) Unwrap() error { return e.error }

func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.runWithRetries(ctx, "storage.objects.delete", func() error { return s.bucket.Object(key).Delete(ctx) })
	return remote.Deleted(err, key)
}
