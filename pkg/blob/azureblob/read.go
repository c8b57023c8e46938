package azureblob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// Get implements blob.Reader. A download that is continued asks for the version with the same ETag.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (_ io.ReadCloser, err error) {
	defer remote.NameError(&err, "get", key)
	client := s.client.NewBlobClient(key)
	open := func(ctx context.Context, etag string, offset, length int64) (remote.Answer, error) {
		count := length
		if count < 0 {
			count = toTheEnd
		}
		options := &azblob.DownloadStreamOptions{Range: azblob.HTTPRange{Offset: offset, Count: count}}
		if condition := remote.IfMatch(etag); condition != "" {
			match := &azblob.ModifiedAccessConditions{IfMatch: to.Ptr(azcore.ETag(condition))}
			options.AccessConditions = &azblob.AccessConditions{ModifiedAccessConditions: match}
		}
		response, err := client.DownloadStream(ctx, options)
		if err != nil {
			return remote.Answer{}, remote.OpenError(statusOf(err), err, s.mapError(err, permissionRead))
		}
		return remote.Part(response.Body, deref(response.ContentRange), unquote(response.ETag), offset)
	}
	stat := func() error {
		_, err := client.GetProperties(ctx, nil)
		return s.mapError(err, permissionRead)
	}
	return remote.NewReader(ctx, open, stat, offset, length)
}

// statusOf is the HTTP status in an error; 0 if there is none.
func statusOf(err error) int {
	if response, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return response.StatusCode
	}
	return 0
}

// toTheEnd is a count beyond the end of any blob. Without a count the SDK asks for no range, and only Content-Length
// gives the size.
const toTheEnd = 1 << 50

func (s *Store) Stat(ctx context.Context, key string) (blob.Object, error) {
	var p azblob.GetPropertiesResponse
	err := s.makeContainerIfMissing(ctx, func() (err error) {
		p, err = s.client.NewBlobClient(key).GetProperties(ctx, nil)
		return err
	})
	if err != nil {
		return blob.Object{}, fmt.Errorf("stat %s: %w", key, s.mapError(err, permissionRead))
	}
	if p.ContentLength == nil || p.LastModified == nil {
		return blob.Object{}, fmt.Errorf("stat %s: %w", key, remote.ErrUndescribed)
	}
	return blob.Object{Key: key, Size: *p.ContentLength, ModTime: *p.LastModified, ETag: unquote(p.ETag)}, nil
}

// List implements blob.Lister. StartAfter is applied here, to what the service lists from the prefix on.
func (s *Store) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return remote.List(prefix, opts, func(token string) ([]remote.Object, string, error) {
		var marker *string
		if token != "" {
			marker = &token
		}
		page, next, err := s.listPage(ctx, prefix, opts.Delimited, marker)
		return page, deref(next), err
	})
}

func (s *Store) listPage(ctx context.Context, prefix string, delimited bool, marker *string) (page []remote.Object,
	next *string, err error) {
	err = s.makeContainerIfMissing(ctx, func() error {
		// The SDK repeats requests, but not those whose answer it cannot read.
		return remote.Retry(ctx, func() error {
			page, next, err = s.requestPage(ctx, prefix, delimited, marker)
			return err
		}, isBroken)
	})
	return page, next, s.mapError(err, permissionRead)
}

// errNotAzure is the error of a listing without a list, such as an answer without a body.
var errNotAzure = errors.New("this is not a listing of Azure Blob Storage: correct --azure-account-url, or the proxy " +
	"before it")

// requestPage requests the page of a listing that follows marker, nil for the first. With delimited, all keys that have
// a further slash after the prefix are listed as one folder. next is the marker of the next page.
func (s *Store) requestPage(ctx context.Context, prefix string, delimited bool, marker *string) (page []remote.Object,
	next *string, err error) {
	if !delimited {
		response, err := s.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix,
			Marker: marker}).NextPage(ctx)
		if err != nil {
			return nil, nil, err
		}
		if response.Segment == nil {
			return nil, nil, errNotAzure
		}
		return objectsOf(response.Segment.BlobItems), response.NextMarker, nil
	}
	response, err := s.client.NewListBlobsHierarchyPager("/",
		&container.ListBlobsHierarchyOptions{Prefix: &prefix, Marker: marker}).NextPage(ctx)
	if err != nil {
		return nil, nil, err
	}
	if response.Segment == nil {
		return nil, nil, errNotAzure
	}
	page = objectsOf(response.Segment.BlobItems)
	for _, folder := range response.Segment.BlobPrefixes {
		page = append(page, remote.Object{Object: blob.Object{Key: deref(folder.Name), Prefix: true}})
	}
	return page, response.NextMarker, nil
}

// isBroken says whether an answer was incomplete. Refusals and errors of the connection or the credentials are not: the
// SDK has handled them.
func isBroken(err error) bool {
	return !errors.As(err, new(*azcore.ResponseError)) && !errors.As(err, new(net.Error)) &&
		!errors.As(err, new(interface{ NonRetriable() })) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// objectsOf returns the objects of a page, without folders.
func objectsOf(items []*container.BlobItem) []remote.Object {
	page := make([]remote.Object, 0, len(items))
	for _, item := range items {
		p := item.Properties
		if p == nil || (p.ResourceType != nil && *p.ResourceType == "directory") {
			continue // accounts with a hierarchical namespace list folders as blobs
		}
		page = append(page, remote.Object{Object: blob.Object{Key: deref(item.Name), Size: deref(p.ContentLength),
			ModTime: deref(p.LastModified), ETag: unquote(p.ETag)}, MD5: p.ContentMD5})
	}
	return page
}

// findKey looks a key up. It needs only the permission to list.
func (s *Store) findKey(ctx context.Context, key string) (remote.Object, error) {
	page, _, err := s.listPage(ctx, key, false, nil)
	return remote.Lookup(page, key, err)
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func unquote(etag *azcore.ETag) string { return strings.Trim(string(deref(etag)), `"`) }
