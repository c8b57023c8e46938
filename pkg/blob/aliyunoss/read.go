package aliyunoss

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// pageSize is how many keys a listing asks for at once: as many as the service gives.
const pageSize = 1000

// Get implements blob.Reader. A download that is continued asks for the version with the same ETag.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (_ io.ReadCloser, err error) {
	defer remote.NameError(&err, "get", key)
	open := func(ctx context.Context, etag string, offset, length int64) (remote.Answer, error) {
		var answer *oss.Response
		err := s.sendWithRetries(ctx, "oss:GetObject", func(options ...oss.Option) error {
			// Without the standard behaviour the service answers an impossible range with the complete object.
			options = append(options, oss.NormalizedRange(remote.Range(offset, length)), oss.RangeBehavior("standard"))
			if condition := remote.IfMatch(etag); condition != "" {
				options = append(options, oss.IfMatch(condition))
			}
			result, err := s.bucket.DoGetObject(&oss.GetObjectRequest{ObjectKey: key}, options)
			if err == nil {
				answer = result.Response
			}
			return err
		})
		if err != nil {
			return remote.Answer{}, remote.OpenError(statusOf(err), err, err) // sendWithRetries has mapped it
		}
		return remote.Part(answer.Body, answer.Headers.Get("Content-Range"),
			unquote(answer.Headers.Get(oss.HTTPHeaderEtag)), offset)
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

// head describes an object without reading it. The right that it needs is that of reading.
func (s *Store) head(ctx context.Context, key string) (blob.Object, error) {
	var header http.Header
	err := s.sendWithRetries(ctx, "oss:GetObject", func(options ...oss.Option) (err error) {
		header, err = s.bucket.GetObjectDetailedMeta(key, options...)
		return err
	})
	if err != nil {
		return blob.Object{}, err
	}
	o := blob.Object{Key: key, ETag: unquote(header.Get(oss.HTTPHeaderEtag))}
	if o.Size, err = strconv.ParseInt(header.Get("Content-Length"), 10, 64); err != nil {
		return blob.Object{}, fmt.Errorf("the server's Content-Length: %w", err)
	}
	if o.ModTime, err = http.ParseTime(header.Get("Last-Modified")); err != nil {
		return blob.Object{}, fmt.Errorf("the server's Last-Modified: %w", err)
	}
	return o, nil
}

func (s *Store) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	query := []oss.Option{oss.Prefix(prefix), oss.MaxKeys(pageSize)}
	if opts.Delimited {
		query = append(query, oss.Delimiter("/"))
	}
	if opts.StartAfter != "" {
		query = append(query, oss.StartAfter(opts.StartAfter))
	}
	return remote.List(prefix, opts, func(token string) ([]remote.Object, string, error) {
		return s.listPage(ctx, token, query)
	})
}

// listPage requests a page, as remote.List asks for it.
func (s *Store) listPage(ctx context.Context, token string, query []oss.Option) (page []remote.Object, next string,
	err error) {
	var result oss.ListObjectsResultV2
	err = s.sendWithRetries(ctx, "oss:ListObjects", func(options ...oss.Option) (err error) {
		options = append(options, query...)
		if token != "" {
			options = append(options, oss.ContinuationToken(token))
		}
		result, err = s.bucket.ListObjectsV2(options...)
		// What is no listing, such as HTML, will not become one. One that was cut short is asked for again; only the
		// text of encoding/xml's error tells them apart.
		var syntax *xml.SyntaxError
		cutShort := errors.As(err, &syntax) && syntax.Msg == "unexpected EOF"
		if errors.As(err, new(xml.UnmarshalError)) || syntax != nil && !cutShort {
			return errNotOSS
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	for _, o := range result.Objects {
		page = append(page, remote.Object{Object: blob.Object{Key: o.Key, Size: o.Size, ModTime: o.LastModified,
			ETag: unquote(o.ETag)}})
	}
	for _, folder := range result.CommonPrefixes {
		page = append(page, remote.Object{Object: blob.Object{Key: folder, Prefix: true}})
	}
	if !result.IsTruncated {
		return page, "", nil
	}
	if result.NextContinuationToken == "" {
		return nil, "", errors.New("the server says that the listing continues, but not where")
	}
	return page, result.NextContinuationToken, nil
}

// findKey looks a key up. It needs only the permission to list.
func (s *Store) findKey(ctx context.Context, key string) (remote.Object, error) {
	page, _, err := s.listPage(ctx, "", []oss.Option{oss.Prefix(key), oss.MaxKeys(1)})
	return remote.Lookup(page, key, err)
}

func unquote(etag string) string { return strings.Trim(etag, `"`) }
