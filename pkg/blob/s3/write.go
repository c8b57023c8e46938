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
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// maxUncheckedPut is the size in bytes up to which a body is sent before the bucket is known to exist. Servers that
// refuse a larger body do not read all of it, and the answer that says why is lost when the connection is reset (seen
// with versitygw).
const maxUncheckedPut = 64 << 10

// refusesCondition says whether a server does not know If-None-Match: most answer 501, some 400 with its name.
func refusesCondition(err error) bool {
	var apiErr smithy.APIError
	return statusOf(err) == http.StatusNotImplemented || statusOf(err) == http.StatusBadRequest &&
		errors.As(err, &apiErr) && strings.Contains(strings.ToLower(apiErr.ErrorMessage()), "if-none-match")
}

// put is a remote.One. Before a large body is sent, the bucket is listed once (see maxUncheckedPut).
func (s *Store) put(ctx context.Context, key string, body io.ReadSeeker, size int64, createOnly bool) (attempts int,
	err error) {
	input := &awss3.PutObjectInput{Bucket: &s.bucket, Key: &key, Body: body, ContentLength: &size}
	if createOnly {
		input.IfNoneMatch = aws.String("*")
	}
	if size > maxUncheckedPut && !s.bucketSeen.Load() {
		if _, _, err := s.listPage(ctx, s.singleKeyListing(key)); err != nil { // nil: bucketSeen is set
			return 0, err
		}
	}
	err = s.makeBucketIfMissing(ctx, func() error {
		if _, err := body.Seek(0, io.SeekStart); err != nil { // it may be the second try
			return err
		}
		output, err := s.client.PutObject(ctx, input, countAttempts(&attempts))
		if err != nil {
			return err
		}
		return s.checkStored(ctx, key, output.ETag)
	})
	return attempts, s.mapError(err, "s3:PutObject")
}

// errNotS3 is the error of an answer with a good status that no S3 server gives.
var errNotS3 = errors.New("this is not the answer of an S3 server: correct --s3-endpoint (a console has another port " +
	"than the store, and the bucket is no part of the URL), or the proxy before it")

// checkStored looks up an object if the answer to storing it had no ETag, and returns errNotS3 if it does not exist. S3
// servers send an ETag, so another server may have answered, such as a proxy with a page of its own. An object that was
// there before is taken for the new one.
func (s *Store) checkStored(ctx context.Context, key string, etag *string) error {
	if aws.ToString(etag) != "" {
		return nil
	}
	_, err := s.findKey(ctx, key)
	if errors.Is(err, os.ErrNotExist) {
		return errNotS3
	}
	return err
}

func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	return remote.Deleted(s.mapError(err, "s3:DeleteObject"), key)
}

// countAttempts counts in n how often an operation is sent: what is behind the SDK's Retry runs for each attempt.
func countAttempts(n *int) func(*awss3.Options) {
	count := middleware.FinalizeMiddlewareFunc("CountAttempts",
		func(ctx context.Context, in middleware.FinalizeInput,
			next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			*n++
			return next.HandleFinalize(ctx, in)
		})
	return awss3.WithAPIOptions(func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(count, "Retry", middleware.After)
	})
}

// statusOf is the HTTP status behind an error, 0 if there is none.
func statusOf(err error) int {
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return response.HTTPStatusCode()
	}
	return 0
}

// multipart is an upload under way.
type multipart struct {
	store *Store
	key   string
	size  int64 // of the object
	id    *string
	parts []types.CompletedPart
	sums  []byte // the parts' ETags, which usually are their MD5 sums
}

// uploadParts is a remote.Parts.
func (s *Store) uploadParts(ctx context.Context, key string, body io.ReadSeeker, size int64, createOnly bool) error {
	m := &multipart{store: s, key: key, size: size}
	err := s.makeBucketIfMissing(ctx, func() error {
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
	err = remote.SendParts(body, size, func(part []byte) error { return m.sendPart(ctx, part) })
	return remote.FinishParts(ctx, s.log.WithField("key", key), err,
		func() error { return m.complete(ctx, createOnly) },
		func(ctx context.Context) error {
			_, err := s.client.AbortMultipartUpload(ctx,
				&awss3.AbortMultipartUploadInput{Bucket: &s.bucket, Key: &key, UploadId: m.id})
			if statusOf(err) == http.StatusNotFound {
				return nil // it has ended already
			}
			return err
		})
}

// sendPart uploads the next part, and notes its MD5 sum, for complete, if the server's ETag is one.
func (m *multipart) sendPart(ctx context.Context, part []byte) error {
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

// complete makes the object of the parts that were sent; with createOnly it fails if there is an object already. If an
// attempt succeeded and its answer was lost, a further attempt is told that the upload is gone or the object exists:
// then an object with the same size and ETag counts as success.
func (m *multipart) complete(ctx context.Context, createOnly bool) error {
	input := &awss3.CompleteMultipartUploadInput{
		Bucket: &m.store.bucket, Key: &m.key, UploadId: m.id,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: m.parts}}
	if createOnly {
		input.IfNoneMatch = aws.String("*")
	}
	attempts := 0
	output, err := m.store.client.CompleteMultipartUpload(ctx, input, countAttempts(&attempts))
	if err == nil {
		return m.store.checkStored(ctx, m.key, output.ETag)
	}
	explained := m.store.mapError(err, "s3:PutObject")
	if attempts > 1 && (errors.As(err, new(*types.NoSuchUpload)) || statusOf(err) == http.StatusNotFound ||
		errors.Is(explained, os.ErrExist)) {
		// An attempt whose answer was lost may have completed it. The ETag is then the sum of the parts' sums.
		etag := fmt.Sprintf("%x-%d", md5.Sum(m.sums), len(m.parts))
		if o, err := m.store.findKey(ctx, m.key); err == nil && o.Size == m.size && o.ETag == etag {
			return nil
		}
	}
	if errors.Is(explained, os.ErrNotExist) {
		return err // it is the upload that does not exist
	}
	return explained
}
