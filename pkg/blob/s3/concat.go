package s3

import (
	"context"
	"fmt"
	"io"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// Concatenate implements blob.Concatenator.
func (s *Store) Concatenate(ctx context.Context, key string, sources []blob.Object) error {
	err := remote.Concatenate(ctx, s.get, sources, limits,
		func(whole io.ReadSeeker, size int64) error { return s.upload(ctx, key, whole, size, false) },
		func(size int64) error {
			m, err := s.startMultipart(ctx, key, size)
			if err != nil {
				return err
			}
			return m.finish(ctx, remote.Assemble(ctx, m, s.get, sources, limits), false)
		})
	if err != nil {
		return fmt.Errorf("concatenate %s: %w", key, err)
	}
	return nil
}
