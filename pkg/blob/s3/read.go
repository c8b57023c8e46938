package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// Get implements blob.Reader. A download that is continued asks for the version with the same ETag.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (_ io.ReadCloser, err error) {
	defer remote.NameError(&err, "get", key)
	open := func(ctx context.Context, etag string, offset, length int64) (remote.Answer, error) {
		input := &awss3.GetObjectInput{Bucket: &s.bucket, Key: &key,
			Range: aws.String("bytes=" + remote.Range(offset, length))}
		if condition := remote.IfMatch(etag); condition != "" {
			input.IfMatch = &condition
		}
		output, err := s.client.GetObject(ctx, input)
		if err != nil {
			return remote.Answer{}, remote.OpenError(statusOf(err), err, s.mapError(err, "s3:GetObject"))
		}
		whole := offset == 0 && output.ContentRange == nil // servers may ignore ranges
		if whole && output.ETag != nil && output.ContentLength != nil {
			return remote.Answer{Body: output.Body, Size: *output.ContentLength, Version: unquote(output.ETag)}, nil
		}
		return remote.Part(output.Body, aws.ToString(output.ContentRange), unquote(output.ETag), offset)
	}
	stat := func() error {
		_, err := s.head(ctx, key)
		return err
	}
	return remote.NewReader(ctx, open, stat, offset, length)
}

func (s *Store) Stat(ctx context.Context, key string) (_ blob.Object, err error) {
	defer remote.NameError(&err, "stat", key)
	return s.head(ctx, key)
}

func (s *Store) head(ctx context.Context, key string) (blob.Object, error) {
	output, err := s.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return blob.Object{}, s.mapError(err, "s3:GetObject")
	}
	if output.ContentLength == nil || output.LastModified == nil {
		return blob.Object{}, remote.ErrUndescribed
	}
	return blob.Object{Key: key, Size: *output.ContentLength, ModTime: *output.LastModified,
		ETag: unquote(output.ETag)}, nil
}

func (s *Store) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return remote.List(prefix, opts, func(token string) ([]remote.Object, string, error) {
		// Keys may hold bytes that XML cannot.
		input := &awss3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &prefix, EncodingType: types.EncodingTypeUrl}
		if opts.Delimited {
			input.Delimiter = aws.String("/")
		}
		if opts.StartAfter != "" {
			input.StartAfter = &opts.StartAfter
		}
		if token != "" {
			input.ContinuationToken = &token
		}
		return s.listPage(ctx, input)
	})
}

// listPage requests a page of a listing, and the token of the next page; "" if it is the last.
func (s *Store) listPage(ctx context.Context, input *awss3.ListObjectsV2Input) (page []remote.Object, next string,
	err error) {
	var output *awss3.ListObjectsV2Output
	err = s.makeBucketIfMissing(ctx, func() (err error) {
		output, err = s.client.ListObjectsV2(ctx, input)
		return err
	})
	missing := codeOf(err) != noSuchKey && strings.HasPrefix(codeOf(err), "NoSuch") // a bucket, an access point
	switch {
	case statusOf(err) == http.StatusNotFound && !missing: // what is listed cannot be missing
		return nil, "", fmt.Errorf("%w: %w", errNotS3, err)
	case err != nil:
		return nil, "", s.mapError(err, "s3:ListBucket")
	}
	if output.Name == nil && output.IsTruncated == nil { // the SDK takes any XML for an empty listing, and no text, too
		return nil, "", errNotS3
	}
	s.bucketSeen.Store(true) // put need not look for it
	// Some servers ignore the wish for an encoding.
	decode := func(name *string) (string, error) { return aws.ToString(name), nil }
	if output.EncodingType == types.EncodingTypeUrl {
		decode = func(name *string) (string, error) { return url.QueryUnescape(aws.ToString(name)) }
	}
	page = make([]remote.Object, 0, len(output.Contents)+len(output.CommonPrefixes))
	for _, o := range output.Contents {
		key, err := decode(o.Key)
		if err != nil {
			return nil, "", fmt.Errorf("listed key %q: %w", aws.ToString(o.Key), err)
		}
		page = append(page, remote.Object{Object: blob.Object{Key: key, Size: aws.ToInt64(o.Size),
			ModTime: aws.ToTime(o.LastModified), ETag: unquote(o.ETag)}})
	}
	for _, folder := range output.CommonPrefixes {
		key, err := decode(folder.Prefix)
		if err != nil {
			return nil, "", fmt.Errorf("listed folder %q: %w", aws.ToString(folder.Prefix), err)
		}
		page = append(page, remote.Object{Object: blob.Object{Key: key, Prefix: true}})
	}
	if aws.ToBool(output.IsTruncated) {
		if next = aws.ToString(output.NextContinuationToken); next == "" {
			return nil, "", errors.New("the server says that the listing continues, but not where")
		}
	}
	return page, next, nil
}

// findKey looks a key up. It needs only the permission to list, so that collectors need not read objects. With SSE-KMS
// or SSE-C an ETag is no MD5 sum, so a create whose answer was lost seems to have found another object. Callers go on
// from what is stored then.
func (s *Store) findKey(ctx context.Context, key string) (remote.Object, error) {
	page, _, err := s.listPage(ctx, s.singleKeyListing(key))
	return remote.Lookup(page, key, err)
}

// singleKeyListing is the request of the smallest listing that shows key if it is there.
func (s *Store) singleKeyListing(key string) *awss3.ListObjectsV2Input {
	return &awss3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &key, MaxKeys: aws.Int32(1),
		EncodingType: types.EncodingTypeUrl}
}

func unquote(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }
