package azureblob

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// mapError maps an error to those of package blob. permission is what the operation needs.
func (s *Store) mapError(err error, permission string) error {
	if err == nil {
		return nil
	}
	if missing := remote.Credentials(err); missing != nil {
		return missing
	}
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		return remote.Unanswered(err, "azure-account-url")
	}
	err = shortError{response} // one line instead of the complete answer
	if permission == permissionCreate && bloberror.HasCode(err, bloberror.UnauthorizedBlobOverwrite) {
		return os.ErrExist // Azure answers so if the caller may create blobs, but not overwrite them
	}
	if refused := s.refusal(err, response, permission); refused != nil {
		return refused
	}
	switch {
	case bloberror.HasCode(err, bloberror.ContainerNotFound):
		return remote.NoBucket(err, "container "+s.name, "azure-container")
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

// shortError describes an answer in one line; the SDK's text is all of it.
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

// makeContainerIfMissing runs an operation. If that fails because the container is missing, and s.createBucket is set,
// it makes the container and runs the operation again.
func (s *Store) makeContainerIfMissing(ctx context.Context, operation func() error) error {
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

// refusal returns the error for a request that Azure does not allow, by its cause
// (learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes and /blob-service-error-codes). It is nil
// if there is another reason. permission is what the operation needs.
func (s *Store) refusal(err error, response *azcore.ResponseError, permission string) error {
	var header http.Header
	if response.RawResponse != nil {
		header = response.RawResponse.Header
	}
	switch code := response.ErrorCode; {
	case code == "AuthenticationFailed", code == "InvalidAuthenticationInfo":
		return remote.RefusedOrWrongClock(err, header,
			"the account key, signed URL or token is wrong or has expired, or belongs to another account: correct it")
	case code == "NoAuthenticationInformation":
		return remote.Refused(err, "the request has no credentials: set --azure-account-key, "+
			"--azure-connection-string or a managed identity")
	case code == "KeyBasedAuthenticationNotPermitted":
		return remote.Refused(err, "the storage account does not allow account keys: use a managed identity or a "+
			"service principal")
	case code == "AuthorizationPermissionMismatch", code == "InsufficientAccountPermissions",
		code == "AuthorizationResourceTypeMismatch", code == "AuthorizationServiceMismatch":
		return remote.Refused(err, "grant %s on container %s", permission, s.name)
	case code == "AuthorizationSourceIPMismatch", code == "AuthorizationFailure", code == "PublicAccessNotPermitted":
		return remote.Refused(err, "the storage account's network rules do not allow this machine, or grant %s on "+
			"container %s", permission, s.name)
	case code == "AuthorizationProtocolMismatch", code == "AccountRequiresHttps":
		return remote.Refused(err, "the storage account allows https only: correct --azure-account-url")
	case code == "AccountIsDisabled":
		return remote.Refused(err, "the storage account is disabled: ask its owner")
	case strings.HasPrefix(code, "BlobImmutable"):
		return remote.Locked(err, "container "+s.name)
	case code == "BlobArchived", code == "BlobBeingRehydrated":
		return remote.Archived(err)
	case strings.HasPrefix(code, "KeyVault"):
		return remote.Refused(err, "the key in Key Vault that encrypts the storage account cannot be used: enable "+
			"it, and grant get, wrapKey and unwrapKey to the account's identity")
	case response.StatusCode == http.StatusForbidden, response.StatusCode == http.StatusUnauthorized:
		return remote.RefusedOrWrongClock(err, header, "grant %s on container %s", permission, s.name)
	}
	return nil
}
