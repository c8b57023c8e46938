package s3

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// Concatenate implements blob.Concatenator.
func (s *Store) Concatenate(ctx context.Context, key string, sources []blob.Object) error {
	if err := s.concatenate(ctx, key, sources); err != nil {
		return fmt.Errorf("concatenate %s: %w", key, err)
	}
	return nil
}

func (s *Store) concatenate(ctx context.Context, key string, sources []blob.Object) error {
	var size int64
	for _, source := range sources {
		size += source.Size
	}
	if size <= limits.Sent {
		whole, err := remote.ReadAll(ctx, s.get, sources)
		if err != nil {
			return err
		}
		return s.upload(ctx, key, bytes.NewReader(whole), size, false)
	}
	m, err := s.startMultipart(ctx, key, size)
	if err != nil {
		return err
	}
	return m.finish(ctx, remote.Assemble(ctx, m, s.get, sources, limits), false)
}
