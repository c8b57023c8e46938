package aliyunoss

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// put is a remote.One.
func (s *Store) put(ctx context.Context, key string, body io.ReadSeeker, size int64, createOnly bool) (attempts int,
	err error) {
	body = remote.Body(body)
	err = s.sendWithRetries(ctx, "oss:PutObject", func(options ...oss.Option) error {
		attempts++
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		answer, err := s.bucket.DoPutObject(&oss.PutObjectRequest{ObjectKey: key,
			Reader: &io.LimitedReader{R: body, N: size}}, append(options, oss.ForbidOverWrite(createOnly)))
		if answer != nil {
			_ = answer.Body.Close()
		}
		if err != nil || answer.Headers.Get(oss.HTTPHeaderEtag) != "" {
			return err
		}
		// OSS gives an ETag, so another server may have answered, such as a proxy with a page of its own.
		if _, err = s.findKey(ctx, key); errors.Is(err, os.ErrNotExist) {
			return errNotOSS
		}
		return err
	})
	return attempts, err
}

// errNotOSS is the error of an answer with a good status that OSS does not give.
var errNotOSS = errors.New("this is not the answer of Alibaba Cloud OSS: correct --oss-endpoint, or the proxy before it")

func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.sendWithRetries(ctx, "oss:DeleteObject",
		func(options ...oss.Option) error { return s.bucket.DeleteObject(key, options...) })
	return remote.Deleted(err, key)
}

// multipart is an upload under way.
type multipart struct {
	store  *Store
	upload oss.InitiateMultipartUploadResult
	parts  []oss.UploadPart
	// mark is stored with the object, to recognise it by when the answer to its completion is lost.
	mark string
}

const markName = "rayhistory-upload"

// uploadParts is a remote.Parts. The object gets a mark, by which complete recognises it as the one of this upload.
func (s *Store) uploadParts(ctx context.Context, key string, body io.ReadSeeker, size int64, createOnly bool) error {
	m := &multipart{store: s, mark: rand.Text()}
	err := s.sendWithRetries(ctx, "oss:PutObject", func(options ...oss.Option) (err error) {
		m.upload, err = s.bucket.InitiateMultipartUpload(key, append(options, oss.Meta(markName, m.mark))...)
		return err
	})
	if err != nil {
		return err
	}
	err = remote.SendParts(body, size, func(part []byte) error { return m.sendPart(ctx, part) })
	return remote.FinishParts(ctx, s.log.WithField("key", key), err,
		func() error { return m.complete(ctx, createOnly) },
		func(ctx context.Context) error {
			err := s.bucket.AbortMultipartUpload(m.upload, oss.WithContext(ctx))
			if codeOf(err) == "NoSuchUpload" {
				return nil // it has ended already
			}
			return err
		})
}

func (m *multipart) sendPart(ctx context.Context, part []byte) error {
	var sent oss.UploadPart
	err := m.store.sendWithRetries(ctx, "oss:PutObject", func(options ...oss.Option) (err error) {
		sent, err = m.store.bucket.UploadPart(m.upload, bytes.NewReader(part), int64(len(part)), len(m.parts)+1,
			options...)
		return err
	})
	m.parts = append(m.parts, sent)
	return err
}

// complete makes the object of the parts that were sent; with createOnly only if there is no object yet. If an attempt
// succeeded and its answer was lost, a further attempt is told that the upload or its key is taken: then an object with
// this upload's mark counts as success.
func (m *multipart) complete(ctx context.Context, createOnly bool) error {
	attempts := 0
	err := m.store.sendWithRetries(ctx, "oss:PutObject", func(options ...oss.Option) error {
		attempts++
		_, err := m.store.bucket.CompleteMultipartUpload(m.upload, m.parts,
			append(options, oss.ForbidOverWrite(createOnly))...)
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
