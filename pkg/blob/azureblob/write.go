package azureblob

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// blocksFrom is the size from which an object is sent in blocks, so that a broken connection costs one block, not all.
const blocksFrom = 64 << 20

// limits are Azure's number of blocks; they may have any size, but each is a request that is paid for.
var limits = remote.Limits{Least: 4 << 20, Sent: 16 << 20, Copied: 100 << 20, Parts: 50_000}

// Create implements blob.Creator.
func (s *Store) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := s.upload(ctx, key, body, true); err != nil {
		return fmt.Errorf("create %s: %w", key, err)
	}
	return nil
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := s.upload(ctx, key, body, false); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// upload stores the body, create-only if absent is set.
func (s *Store) upload(ctx context.Context, key string, body io.ReadSeeker, absent bool) error {
	size, err := remote.Size(body)
	if err != nil {
		return err
	}
	if size > blocksFrom {
		b := s.newBlocks(key)
		if err := s.withContainer(ctx, func() error {
			b.ids = b.ids[:0]
			b.sum.Reset()
			if _, err := body.Seek(0, io.SeekStart); err != nil {
				return err
			}
			return remote.SendAll(ctx, b, body, size, limits)
		}); err != nil {
			return s.explain(err, permissionCreate)
		}
		return b.commit(ctx, size, absent)
	}
	attempts := 0
	counted := context.WithValue(ctx, attemptsKey{}, &attempts)
	err = s.withContainer(ctx, func() error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := s.client.NewBlockBlobClient(key).Upload(counted, streaming.NopCloser(remote.Body(body)), &blockblob.UploadOptions{AccessConditions: condition(absent)})
		return err
	})
	return remote.ForgiveEcho(s.explain(err, permissionCreate), attempts, body, func(sum []byte) bool { return s.holds(ctx, key, size, sum) })
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
	return &azblob.AccessConditions{ModifiedAccessConditions: &azblob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.client.NewBlobClient(key).Delete(ctx, &azblob.DeleteOptions{DeleteSnapshots: to.Ptr(azblob.DeleteSnapshotsOptionTypeInclude)})
	if err = s.explain(err, permissionDelete); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// blocks is a blob that is being made of blocks; those of an unfinished one are the service's to forget, after a week.
type blocks struct {
	store  *Store
	key    string
	client *blockblob.Client
	ids    []string
	// sum is the MD5 sum of what was sent; useless once a block was copied.
	sum    hash.Hash
	copied bool
	// upload sets the blocks' IDs apart from those of another upload to the same key.
	upload [8]byte
}

func (s *Store) newBlocks(key string) *blocks {
	b := &blocks{store: s, key: key, client: s.client.NewBlockBlobClient(key), sum: md5.New()}
	_, _ = rand.Read(b.upload[:]) // never fails
	return b
}

// Send implements remote.Upload.
func (b *blocks) Send(ctx context.Context, part []byte) error {
	_, err := b.client.StageBlock(ctx, b.nextID(), streaming.NopCloser(bytes.NewReader(part)), nil)
	b.sum.Write(part)
	return err
}

// nextID adds the ID of the next block: within a blob they must be of equal length.
func (b *blocks) nextID() string {
	id := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(b.upload[:], uint32(len(b.ids))))
	b.ids = append(b.ids, id)
	return id
}

// commit makes the blob of its blocks.
func (b *blocks) commit(ctx context.Context, size int64, absent bool) error {
	attempts := 0
	options := &blockblob.CommitBlockListOptions{AccessConditions: condition(absent)}
	sum := b.sum.Sum(nil)
	if !b.copied {
		options.HTTPHeaders = &azblob.HTTPHeaders{BlobContentMD5: sum}
	}
	_, err := b.client.CommitBlockList(context.WithValue(ctx, attemptsKey{}, &attempts), b.ids, options)
	if absent && bloberror.HasCode(err, bloberror.InvalidBlockList) {
		// Another upload to the key was committed, and with that the service forgot our blocks.
		if _, findErr := b.store.find(ctx, b.key); findErr == nil {
			return os.ErrExist
		}
	}
	err = b.store.explain(err, permissionCreate)
	if errors.Is(err, os.ErrExist) && attempts > 1 && !b.copied && b.store.holds(ctx, b.key, size, sum) {
		return nil // committed by an attempt whose answer was lost
	}
	return err
}
