package azureblob

import (
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

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
	case code == "BlobArchived", code == "BlobBeingRehydrated":
		return remote.Refused(err, "the blob is in the archive tier and cannot be read at once: rehydrate it")
	case strings.HasPrefix(code, "KeyVault"):
		return remote.Refused(err, "the key in Key Vault that encrypts the storage account cannot be used: enable "+
			"it, and grant get, wrapKey and unwrapKey to the account's identity")
	case response.StatusCode == http.StatusForbidden, response.StatusCode == http.StatusUnauthorized:
		return remote.RefusedOrWrongClock(err, header, "grant %s on container %s", permission, s.name)
	}
	return nil
}
