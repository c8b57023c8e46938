package aliyunoss

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// multipart is an upload under way.
type multipart struct {
	store  *Store
	upload oss.InitiateMultipartUploadResult
	parts  []oss.UploadPart
	// mark is stored with the object, to recognise it by when the answer to its completion is lost.
	mark string
}

const markName = "rayhistory-upload"

// uploadParts stores a large body part by part.
func (s *Store) uploadParts(ctx context.Context, key string, body io.Reader, size int64, absent bool) error {
	m := &multipart{store: s, mark: rand.Text()}
	err := s.do(ctx, "oss:PutObject", func(options ...oss.Option) (err error) {
		m.upload, err = s.bucket.InitiateMultipartUpload(key, append(options, oss.Meta(markName, m.mark))...)
		return err
	})
	if err != nil {
		return err
	}
	return m.finish(ctx, remote.SendParts(body, size, func(part []byte) error { return m.send(ctx, part) }), absent)
}

func (m *multipart) send(ctx context.Context, part []byte) error {
	var sent oss.UploadPart
	err := m.store.do(ctx, "oss:PutObject", func(options ...oss.Option) (err error) {
		sent, err = m.store.bucket.UploadPart(m.upload, bytes.NewReader(part), int64(len(part)), len(m.parts)+1,
			options...)
		return err
	})
	m.parts = append(m.parts, sent)
	return err
}

// finish makes the object of its parts. If a part failed (err) it aborts the upload.
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
	if abortErr := m.store.bucket.AbortMultipartUpload(m.upload, oss.WithContext(ctx)); abortErr != nil &&
		codeOf(abortErr) != "NoSuchUpload" {
		m.store.log.WithError(abortErr).WithField("key",
			m.upload.Key).Debug("cannot abort a multipart upload; the bucket's lifecycle rule must remove it")
	}
	return err
}

// complete makes the object of the parts that were sent, create-only if absent is set: then os.ErrExist may also be the
// answer to a further attempt after the first one succeeded.
func (m *multipart) complete(ctx context.Context, absent bool) error {
	attempts := 0
	err := m.store.do(ctx, "oss:PutObject", func(options ...oss.Option) error {
		attempts++
		_, err := m.store.bucket.CompleteMultipartUpload(m.upload, m.parts,
			append(options, oss.ForbidOverWrite(absent))...)
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
