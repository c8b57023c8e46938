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
)

// explain maps an error of the service to what callers branch on. permission is what the operation needs.
func (s *Store) explain(err error, permission string) error {
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		return err
	}
	err = shortError{response}
	switch {
	case bloberror.HasCode(err, bloberror.ContainerNotFound):
		return fmt.Errorf("container %s does not exist: make it or set --azure-container: %w", s.name, err)
	case bloberror.HasCode(err, bloberror.BlobNotFound), response.StatusCode == http.StatusNotFound && response.ErrorCode == "":
		return os.ErrNotExist
	case bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet, bloberror.TargetConditionNotMet):
		return os.ErrExist
	case response.StatusCode == http.StatusForbidden, response.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%w: grant %s on container %s: %w", blob.ErrPermission, permission, s.name, err)
	case response.StatusCode == http.StatusTooManyRequests, bloberror.HasCode(err, bloberror.ServerBusy):
		return fmt.Errorf("%w: %w", blob.ErrThrottled, err)
	}
	return err
}

// shortError tells of a refusal in a line; the SDK's text is the whole answer.
type shortError struct{ *azcore.ResponseError }

func (e shortError) Error() string { return fmt.Sprintf("%s (status %d)", e.ErrorCode, e.StatusCode) }

func (e shortError) Unwrap() error { return e.ResponseError }

// What the service calls the permissions, as in custom roles; the built-in role Storage Blob Data Contributor has all of them.
const (
	permissionRead   = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read"
	permissionCreate = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/add/action"
	permissionWrite  = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write"
	permissionDelete = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete"
	permissionMake   = "Microsoft.Storage/storageAccounts/blobServices/containers/write"
)

// withContainer runs an operation; where the container is missing and may be made, it makes it and runs the operation again.
func (s *Store) withContainer(ctx context.Context, operation func() error) error {
	err := operation()
	if !s.createBucket || !bloberror.HasCode(err, bloberror.ContainerNotFound) {
		return err
	}
	_, createErr := s.client.Create(ctx, nil)
	switch {
	case createErr == nil:
		s.log.WithField("container", s.name).Info("made the container")
	case bloberror.HasCode(createErr, bloberror.ContainerAlreadyExists): // by another process, just now
	default:
		return fmt.Errorf("%w; making it: %w", err, s.explain(createErr, permissionMake))
	}
	return operation()
}
