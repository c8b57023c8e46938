package azureblob

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// copyTime is how long a signature for copying from a blob is valid.
const copyTime = time.Hour

// Concatenate implements blob.Concatenator: large stretches of the sources become blocks that the service copies.
func (s *Store) Concatenate(ctx context.Context, key string, sources []blob.Object) error {
	err := s.concatenate(ctx, key, sources)
	if isUnsupported(err) && !s.noCopies.Swap(true) {
		err = s.concatenate(ctx, key, sources)
	}
	if err != nil {
		return fmt.Errorf("concatenate %s: %w", key, err)
	}
	return nil
}

func (s *Store) concatenate(ctx context.Context, key string, sources []blob.Object) error {
	return remote.Concatenate(ctx, s.get, sources, limits,
		func(whole io.ReadSeeker, _ int64) error { return s.upload(ctx, key, whole, false) },
		func(size int64) error {
			b := s.newBlocks(key)
			if err := b.join(ctx, size, sources); err != nil {
				return s.explain(err, permissionCreate)
			}
			return b.commit(ctx, size, false)
		})
}

// join makes blocks of the sources.
func (b *blocks) join(ctx context.Context, size int64, sources []blob.Object) error {
	if !b.store.noCopies.Load() {
		return remote.Assemble(ctx, b, b.store.get, sources, limits)
	}
	joined := remote.Join(ctx, b.store.get, sources)
	defer joined.Close()
	return remote.SendAll(ctx, b, joined, size, limits)
}

// Copy implements remote.Upload.
func (b *blocks) Copy(ctx context.Context, source blob.Object, from, n int64) error {
	s, err := b.store.copySource(ctx, source.Key)
	if err != nil {
		return fmt.Errorf("copy from %s: %w", source.Key, err)
	}
	_, err = b.client.StageBlockFromURL(ctx, b.nextID(), s.url, &blockblob.StageBlockFromURLOptions{
		Range:                   azblob.HTTPRange{Offset: from, Count: n},
		CopySourceAuthorization: s.authorization,
		SourceModifiedAccessConditions: &azblob.SourceModifiedAccessConditions{
			SourceIfMatch: to.Ptr(azcore.ETag(strconv.Quote(source.ETag))),
		},
	})
	b.copied = true
	if bloberror.HasCode(err, bloberror.SourceConditionNotMet, bloberror.CannotVerifyCopySource) {
		return fmt.Errorf("%s was replaced since it was listed, or may not be read: %w", source.Key, err)
	}
	return err
}

// copySource is an address that the service may read a blob from.
type copySource struct {
	url           string
	authorization *string
}

// copySource makes the address by what this store authenticates with: a token, a signature by the account's key, or the signature
// that its own URL carries.
func (s *Store) copySource(ctx context.Context, key string) (copySource, error) {
	client := s.client.NewBlobClient(key)
	switch {
	case s.tokens != nil:
		token, err := s.tokens.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{"https://storage.azure.com/.default"}})
		return copySource{client.URL(), to.Ptr("Bearer " + token.Token)}, err
	case s.sharedKey:
		signed, err := client.GetSASURL(sas.BlobPermissions{Read: true}, time.Now().Add(copyTime), nil)
		return copySource{url: signed}, err
	}
	return copySource{url: client.URL()}, nil
}
