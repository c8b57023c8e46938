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
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// limits are S3's, but for what is copied at once: that is small enough for the copy to end before a request does.
var limits = remote.Limits{Least: 5 << 20, Sent: 16 << 20, Copied: 1 << 30, Parts: 10_000}

// uploadParts stores a large body part by part.
func (s *Store) uploadParts(ctx context.Context, key string, body io.ReadSeeker, size int64, absent bool) error {
	m, err := s.startMultipart(ctx, key, size)
	if err != nil {
		return err
	}
	return m.finish(ctx, remote.SendAll(ctx, m, body, size, limits), absent)
}

// multipart is an upload under way.
type multipart struct {
	store *Store
	key   string
	size  int64 // of the whole
	id    *string
	parts []types.CompletedPart
	sums  []byte // the parts' MD5 sums, for as long as they are known
}

func (s *Store) startMultipart(ctx context.Context, key string, size int64) (*multipart, error) {
	m := &multipart{store: s, key: key, size: size}
	err := s.withBucket(ctx, func() error {
		output, err := s.client.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &key})
		if err == nil {
			m.id = output.UploadId
		}
		return err
	})
	return m, s.explain(err, "s3:PutObject")
}

// Send implements remote.Upload.
func (m *multipart) Send(ctx context.Context, part []byte) error {
	output, err := m.store.client.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: &m.store.bucket, Key: &m.key, UploadId: m.id, PartNumber: m.next(), Body: bytes.NewReader(part)})
	if err != nil {
		return m.store.explain(err, "s3:PutObject")
	}
	m.add(output.ETag)
	return nil
}

// Copy implements remote.Upload.
func (m *multipart) Copy(ctx context.Context, source blob.Object, from, n int64) error {
	output, err := m.store.client.UploadPartCopy(ctx, &awss3.UploadPartCopyInput{
		Bucket: &m.store.bucket, Key: &m.key, UploadId: m.id, PartNumber: m.next(),
		CopySource:        aws.String(m.store.bucket + "/" + (&url.URL{Path: source.Key}).EscapedPath()),
		CopySourceRange:   aws.String("bytes=" + remote.Range(from, n)),
		CopySourceIfMatch: aws.String(source.ETag),
	})
	if statusOf(err) == http.StatusPreconditionFailed {
		return fmt.Errorf("%s was replaced since it was listed: %w", source.Key, err)
	}
	if err != nil {
		return fmt.Errorf("copy from %s: %w", source.Key, m.store.explain(err, "s3:GetObject and s3:PutObject"))
	}
	m.add(output.CopyPartResult.ETag)
	return nil
}

func (m *multipart) next() *int32 { return aws.Int32(int32(len(m.parts) + 1)) }

func (m *multipart) add(etag *string) {
	m.parts = append(m.parts, types.CompletedPart{ETag: etag, PartNumber: m.next()})
	if sum, err := hex.DecodeString(unquote(etag)); err == nil && len(sum) == md5.Size {
		m.sums = append(m.sums, sum...)
	}
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
	_, abortErr := m.store.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &m.store.bucket, Key: &m.key, UploadId: m.id})
	if abortErr != nil && statusOf(abortErr) != http.StatusNotFound {
		m.store.log.WithError(abortErr).WithField("key", m.key).Debug("an unfinished multipart upload is left")
	}
	return err
}

func (m *multipart) complete(ctx context.Context, absent bool) error {
	input := &awss3.CompleteMultipartUploadInput{
		Bucket: &m.store.bucket, Key: &m.key, UploadId: m.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: m.parts}}
	if absent {
		input.IfNoneMatch = aws.String("*")
	}
	attempts := 0
	_, err := m.store.client.CompleteMultipartUpload(ctx, input, countAttempts(&attempts))
	if err == nil {
		return nil
	}
	var gone *types.NoSuchUpload
	explained := m.store.explain(err, "s3:PutObject")
	if attempts > 1 && (errors.As(err, &gone) || statusOf(err) == http.StatusNotFound || errors.Is(explained, os.ErrExist)) {
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
