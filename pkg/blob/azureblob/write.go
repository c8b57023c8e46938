package azureblob

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
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

// put is a remote.One.
func (s *Store) put(ctx context.Context, key string, body io.ReadSeeker, _ int64, createOnly bool) (attempts int,
	err error) {
	counted := context.WithValue(ctx, attemptsKey{}, &attempts) // attemptPolicy counts into it
	err = s.makeContainerIfMissing(ctx, func() error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		options := &blockblob.UploadOptions{AccessConditions: writeCondition(createOnly)}
		_, err := s.client.NewBlockBlobClient(key).Upload(counted, streaming.NopCloser(remote.Body(body)), options)
		return err
	})
	return attempts, s.mapError(err, writePermission(createOnly))
}

// writePermission is the permission that a write needs: one that may find a blob has to be allowed to overwrite it.
func writePermission(createOnly bool) string {
	if createOnly {
		return permissionCreate
	}
	return permissionWrite
}

// writeCondition is that of a write; none unless the key must be free.
func writeCondition(createOnly bool) *azblob.AccessConditions {
	if !createOnly {
		return nil
	}
	return &azblob.AccessConditions{ModifiedAccessConditions: &azblob.ModifiedAccessConditions{
		IfNoneMatch: to.Ptr(azcore.ETagAny)}}
}

func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.client.NewBlobClient(key).Delete(ctx,
		&azblob.DeleteOptions{DeleteSnapshots: to.Ptr(azblob.DeleteSnapshotsOptionTypeInclude)})
	return remote.Deleted(s.mapError(err, permissionDelete), key)
}

// multipart is an upload under way, of blocks. The service forgets those of an unfinished upload after a week.
type multipart struct {
	store  *Store
	key    string
	client *blockblob.Client
	ids    []string
	size   int64
	sum    hash.Hash // MD5 of what was sent
	// upload sets the blocks' IDs apart from those of another upload to the same key.
	upload [8]byte
}

// uploadParts is a remote.Parts: a part is a block.
func (s *Store) uploadParts(ctx context.Context, key string, body io.ReadSeeker, size int64, createOnly bool) error {
	m := &multipart{store: s, key: key, client: s.client.NewBlockBlobClient(key), size: size}
	_, _ = rand.Read(m.upload[:]) // never fails
	err := s.makeContainerIfMissing(ctx, func() error {
		m.ids, m.sum = nil, md5.New()
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return remote.SendParts(body, size, func(part []byte) error { return m.sendPart(ctx, part) })
	})
	if err != nil {
		return s.mapError(err, writePermission(createOnly))
	}
	return m.complete(ctx, createOnly)
}

func (m *multipart) sendPart(ctx context.Context, part []byte) error {
	// Within a blob the IDs must be of equal length.
	id := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(m.upload[:], uint32(len(m.ids))))
	m.ids = append(m.ids, id)
	m.sum.Write(part)
	_, err := m.client.StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(part)), nil)
	return err
}

// complete makes the blob of its blocks; with createOnly only if there is none yet. If an attempt succeeded and its
// answer was lost, a further attempt is told that the blob exists: then one with the same size and MD5 sum counts as
// success.
func (m *multipart) complete(ctx context.Context, createOnly bool) error {
	attempts := 0
	counted := context.WithValue(ctx, attemptsKey{}, &attempts) // attemptPolicy counts into it
	sum := m.sum.Sum(nil)
	options := &blockblob.CommitBlockListOptions{AccessConditions: writeCondition(createOnly),
		HTTPHeaders: &azblob.HTTPHeaders{BlobContentMD5: sum}}
	_, err := m.client.CommitBlockList(counted, m.ids, options)
	if createOnly && bloberror.HasCode(err, bloberror.InvalidBlockList) {
		// Another upload to the key was committed, and with that the service forgot our blocks.
		if _, findErr := m.store.findKey(ctx, m.key); findErr == nil {
			return os.ErrExist
		}
	}
	err = m.store.mapError(err, writePermission(createOnly))
	if errors.Is(err, os.ErrExist) && attempts > 1 && m.store.Holds(ctx, m.key, m.size, sum) {
		return nil // committed by an attempt whose answer was lost
	}
	return err
}
