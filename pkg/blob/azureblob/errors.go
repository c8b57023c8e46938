package azureblob

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// mapError turns an error of the service into the errors of package blob. permission is what the operation needs.
func (s *Store) mapError(err error, permission string) error {
	if missing := remote.Credentials(err); missing != nil {
		return missing
	}
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		return err
	}
	err = shortError{response}
	if refused := s.refusal(err, response, permission); refused != nil {
		return refused
	}
	switch {
	case bloberror.HasCode(err, bloberror.ContainerNotFound):
		return fmt.Errorf("container %s does not exist: create it, let --storage-create-bucket create it, or correct "+
			"--azure-container: %w", s.name, err)
	case bloberror.HasCode(err, bloberror.BlobNotFound), response.StatusCode == http.StatusNotFound &&
		response.ErrorCode == "":
		return os.ErrNotExist
	case bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet,
		bloberror.TargetConditionNotMet):
		return os.ErrExist
	case response.StatusCode == http.StatusTooManyRequests, bloberror.HasCode(err, bloberror.ServerBusy):
		return fmt.Errorf("%w: %w", blob.ErrThrottled, err)
	case response.StatusCode == http.StatusRequestEntityTooLarge, bloberror.HasCode(err, bloberror.RequestBodyTooLarge):
		return fmt.Errorf("%w: %w", blob.ErrTooLarge, err)
	case response.StatusCode == http.StatusRequestURITooLong,
		bloberror.HasCode(err, bloberror.InvalidResourceName, bloberror.InvalidURI):
		return fmt.Errorf("%w: %w", blob.ErrRefused, err)
	}
	return err
}

// shortError describes a refusal in one line; the SDK's text is the complete answer.
type shortError struct{ *azcore.ResponseError }

func (e shortError) Error() string { return fmt.Sprintf("%s (status %d)", e.ErrorCode, e.StatusCode) }

func (e shortError) Unwrap() error { return e.ResponseError }

// What the service calls the permissions, as in custom roles; the built-in role Storage Blob Data Contributor has all
// of them.
const (
	permissionRead   = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read"
	permissionCreate = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/add/action"
	permissionWrite  = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write"
	permissionDelete = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete"
	permissionMake   = "Microsoft.Storage/storageAccounts/blobServices/containers/write"
)

// withBucket runs an operation. If the container is missing and may be made, it makes it and runs the operation again.
func (s *Store) withBucket(ctx context.Context, operation func() error) error {
	err := operation()
	if !s.createBucket || !bloberror.HasCode(err, bloberror.ContainerNotFound) {
		return err
	}
	_, createErr := s.client.Create(ctx, nil)
	switch {
	case createErr == nil:
		s.log.WithField("container", s.name).Info("created the container")
	case bloberror.HasCode(createErr, bloberror.ContainerAlreadyExists): // by another process, just now
	default:
		return fmt.Errorf("%w; create it: %w", err, s.mapError(createErr, permissionMake))
	}
	return operation()
}
