package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// multipart is an upload under way.
type multipart struct {
	store *Store
	key   string
	size  int64 // of the object
	id    *string
	parts []types.CompletedPart
	sums  []byte // the parts' ETags, which usually are their MD5 sums
}

// uploadParts stores a large body part by part.
func (s *Store) uploadParts(ctx context.Context, key string, body io.Reader, size int64, absent bool) error {
	m := &multipart{store: s, key: key, size: size}
	err := s.withBucket(ctx, func() error {
		output, err := s.client.CreateMultipartUpload(ctx,
			&awss3.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &key})
		if err == nil {
			m.id = output.UploadId
		}
		return err
	})
	if err != nil {
		return s.mapError(err, "s3:PutObject")
	}
	return m.finish(ctx, remote.SendParts(body, size, func(part []byte) error { return m.send(ctx, part) }), absent)
}

// send uploads the next part.
func (m *multipart) send(ctx context.Context, part []byte) error {
	number := aws.Int32(int32(len(m.parts) + 1))
	output, err := m.store.client.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: &m.store.bucket, Key: &m.key, UploadId: m.id, PartNumber: number, Body: bytes.NewReader(part)})
	if err != nil {
		return m.store.mapError(err, "s3:PutObject")
	}
	m.parts = append(m.parts, types.CompletedPart{ETag: output.ETag, PartNumber: number})
	if sum, err := hex.DecodeString(unquote(output.ETag)); err == nil {
		m.sums = append(m.sums, sum...)
	}
	return nil
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
	_, abortErr := m.store.client.AbortMultipartUpload(ctx,
		&awss3.AbortMultipartUploadInput{Bucket: &m.store.bucket, Key: &m.key, UploadId: m.id})
	if abortErr != nil && statusOf(abortErr) != http.StatusNotFound {
		m.store.log.WithError(abortErr).WithField("key",
			m.key).Debug("cannot abort a multipart upload; the bucket's lifecycle rule must remove it")
	}
	return err
}

// complete makes the object of the parts that were sent. With absent it fails if there is an object already. An answer
// may be lost: after a second attempt an object with the same content counts as ours.
func (m *multipart) complete(ctx context.Context, absent bool) error {
	input := &awss3.CompleteMultipartUploadInput{
		Bucket: &m.store.bucket, Key: &m.key, UploadId: m.id,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: m.parts}}
	if absent {
		input.IfNoneMatch = aws.String("*")
	}
	attempts := 0
	_, err := m.store.client.CompleteMultipartUpload(ctx, input, countAttempts(&attempts))
	if err == nil {
		return nil
	}
	var gone *types.NoSuchUpload
	explained := m.store.mapError(err, "s3:PutObject")
	if attempts > 1 && (errors.As(err, &gone) || statusOf(err) == http.StatusNotFound ||
		errors.Is(explained, os.ErrExist)) {
		// An attempt whose answer was lost may have completed it.
		sum := md5.Sum(m.sums)
		if m.store.holds(ctx, m.key, m.size, fmt.Sprintf("%x-%d", sum, len(m.parts))) {
			return nil
		}
	}
	if errors.Is(explained, os.ErrNotExist) {
		return err // it is the upload that does not exist
	}
	return explained
}
