package aliyunoss

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// limits are OSS's, but that copies are of a size worth a request, and small enough for the copy to end before one does.
var limits = remote.Limits{Least: 1 << 20, Sent: 16 << 20, Copied: 1 << 30, Parts: 10_000}

// multipart is an upload under way.
type multipart struct {
	store  *Store
	upload oss.InitiateMultipartUploadResult
	parts  []oss.UploadPart
	// mark is stored with the object, to recognise it by when the answer to its completion is lost.
	mark string
}

const markName = "rayhistory-upload"

func (s *Store) startMultipart(ctx context.Context, key string) (*multipart, error) {
	m := &multipart{store: s, mark: rand.Text()}
	err := s.do(ctx, "oss:PutObject", func(options ...oss.Option) (err error) {
		m.upload, err = s.bucket.InitiateMultipartUpload(key, append(options, oss.Meta(markName, m.mark))...)
		return err
	})
	return m, err
}

// Send implements remote.Upload.
func (m *multipart) Send(ctx context.Context, part []byte) error {
	return m.add(ctx, "oss:PutObject", func(options ...oss.Option) (oss.UploadPart, error) {
		return m.store.bucket.UploadPart(m.upload, bytes.NewReader(part), int64(len(part)), len(m.parts)+1, options...)
	})
}

// Copy implements remote.Upload.
func (m *multipart) Copy(ctx context.Context, source blob.Object, from, n int64) error {
	err := m.add(ctx, "oss:GetObject and oss:PutObject", func(options ...oss.Option) (oss.UploadPart, error) {
		options = append(options, oss.CopySourceIfMatch(strconv.Quote(source.ETag)))
		return m.store.bucket.UploadPartCopy(m.upload, m.store.name, source.Key, from, n, len(m.parts)+1, options...)
	})
	var refused oss.ServiceError
	if errors.As(err, &refused) && refused.StatusCode == http.StatusPreconditionFailed {
		return fmt.Errorf("%s was replaced since it was listed: %w", source.Key, err)
	}
	return err
}

func (m *multipart) add(ctx context.Context, permission string, request func(options ...oss.Option) (oss.UploadPart, error)) error {
	var part oss.UploadPart
	err := m.store.do(ctx, permission, func(options ...oss.Option) (err error) {
		part, err = request(options...)
		return err
	})
	m.parts = append(m.parts, part)
	return err
}

// finish makes the object of its parts, or after an error of one (err) forgets them.
func (m *multipart) finish(ctx context.Context, err error, absent bool) error {
	if err == nil {
		err = m.complete(ctx, absent)
	}
	if err == nil {
		return nil
	}
	// The upload would be kept, and paid for, until a lifecycle rule ends it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if abortErr := m.store.bucket.AbortMultipartUpload(m.upload, oss.WithContext(ctx)); abortErr != nil && codeOf(abortErr) != "NoSuchUpload" {
		m.store.log.WithError(abortErr).WithField("key", m.upload.Key).Debug("an unfinished multipart upload is left")
	}
	return err
}

func (m *multipart) complete(ctx context.Context, absent bool) error {
	attempts := 0
	err := m.store.do(ctx, "oss:PutObject", func(options ...oss.Option) error {
		attempts++
		_, err := m.store.bucket.CompleteMultipartUpload(m.upload, m.parts, append(options, oss.ForbidOverWrite(absent))...)
		return err
	})
	if attempts > 1 && (codeOf(err) == "NoSuchUpload" || errors.Is(err, os.ErrExist)) {
		// An attempt whose answer was lost may have completed it.
		header, headErr := m.store.bucket.GetObjectDetailedMeta(m.upload.Key, oss.WithContext(ctx))
		if headErr == nil && header.Get(oss.HTTPHeaderOssMetaPrefix+markName) == m.mark {
			return nil
		}
	}
	return err
}

// Concatenate implements blob.Concatenator.
func (s *Store) Concatenate(ctx context.Context, key string, sources []blob.Object) error {
	err := remote.Concatenate(ctx, s.get, sources, limits,
		func(whole io.ReadSeeker, size int64) error { return s.upload(ctx, key, whole, size, false) },
		func(int64) error {
			m, err := s.startMultipart(ctx, key)
			if err != nil {
				return err
			}
			return m.finish(ctx, remote.Assemble(ctx, m, s.get, sources, limits), false)
		})
	if err != nil {
		return fmt.Errorf("concatenate %s: %w", key, err)
	}
	return nil
}
