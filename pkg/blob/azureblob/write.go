package azureblob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// Create implements blob.Creator.
func (s *Store) Create(ctx context.Context, key string, body io.ReadSeeker) (err error) {
	defer remote.Name(&err, "create", key)
	return s.upload(ctx, key, body, true)
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker) (err error) {
	defer remote.Name(&err, "put", key)
	return s.upload(ctx, key, body, false)
}

// upload stores the body, create-only if absent is set.
func (s *Store) upload(ctx context.Context, key string, body io.ReadSeeker, absent bool) error {
	size, err := remote.Size(body)
	if err != nil {
		return err
	}
	if remote.InParts(size, absent) {
		return s.uploadParts(ctx, key, body, size, absent)
	}
	attempts := 0
	counted := context.WithValue(ctx, attemptsKey{}, &attempts)
	err = s.withBucket(ctx, func() error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		options := &blockblob.UploadOptions{AccessConditions: condition(absent)}
		_, err := s.client.NewBlockBlobClient(key).Upload(counted, streaming.NopCloser(remote.Body(body)), options)
		return err
	})
	return remote.AcceptOwnWrite(s.mapError(err, permissionCreate), attempts, body,
		func(sum []byte) bool { return s.holds(ctx, key, size, sum) })
}

// holds says whether the blob under key has this size and content.
func (s *Store) holds(ctx context.Context, key string, size int64, sum []byte) bool {
	o, err := s.find(ctx, key)
	return err == nil && o.Size == size && bytes.Equal(o.md5, sum)
}

// condition is that of a write; none unless the key must be free.
func condition(absent bool) *azblob.AccessConditions {
	if !absent {
		return nil
	}
	return &azblob.AccessConditions{ModifiedAccessConditions: &azblob.ModifiedAccessConditions{
		IfNoneMatch: to.Ptr(azcore.ETagAny)}}
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.client.NewBlobClient(key).Delete(ctx,
		&azblob.DeleteOptions{DeleteSnapshots: to.Ptr(azblob.DeleteSnapshotsOptionTypeInclude)})
	if err = s.mapError(err, permissionDelete); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}
