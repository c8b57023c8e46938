package s3

import (
	"net/http"
	"strings"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// refusal returns the error for a request that Amazon, or a server that speaks its protocol, does not allow, by its
// cause (docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html). It is nil if there is another reason. permission
// is what the operation needs. Answers to HEAD have a status only, so 403 without a code may have any of these causes:
// it is taken for a missing permission.
func (s *Store) refusal(err error, status int, code, message string, header http.Header, permission string) error {
	switch code {
	case "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture":
		return remote.WrongClock(err, header)
	case "SignatureDoesNotMatch", "InvalidSignatureException":
		return remote.RefusedOrWrongClock(err, header,
			"the secret key does not belong to the access key, or --s3-endpoint or --s3-region is wrong: correct them")
	case "AuthorizationHeaderMalformed", "IncorrectEndpoint", "IllegalLocationConstraintException", "PermanentRedirect":
		return remote.Refused(err, "bucket %s is in another region or behind another address: correct --s3-region or "+
			"--s3-endpoint", s.bucket)
	case "InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException":
		return remote.RefusedOrWrongClock(err, header,
			"the store does not know the access key: correct it, or --s3-endpoint")
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired":
		return remote.RefusedOrWrongClock(err, header, "the credentials have expired: renew them")
	case "InvalidToken", "InvalidTokenId":
		return remote.RefusedOrWrongClock(err, header,
			"the session token does not belong to the access key: set both anew")
	case "InvalidObjectState":
		return remote.Refused(err, "the object is archived in a storage class that cannot be read at once: restore it")
	case "AccountProblem", "AllAccessDisabled", "NotSignedUp", "InvalidPayer":
		return remote.Refused(err, "the account of bucket %s is not in order: ask its owner", s.bucket)
	}
	switch lower := strings.ToLower(message); {
	case strings.HasPrefix(code, "KMS."):
		return remote.Refused(err, "the KMS key of bucket %s cannot be used: enable it, or choose another one",
			s.bucket)
	case status != http.StatusForbidden && code != "AccessDenied":
		return nil
	case strings.Contains(lower, "kms:") || strings.Contains(lower, "kms key"):
		return remote.Refused(err, "grant %s on the KMS key of bucket %s",
			remote.KeyRight(message, "kms:GenerateDataKey and kms:Decrypt"), s.bucket)
	case strings.Contains(lower, "request has expired"):
		return remote.WrongClock(err, header)
	case strings.Contains(lower, "explicit deny"):
		return remote.Refused(err, "a policy denies %s on bucket %s: change it", permission, s.bucket)
	}
	return remote.RefusedOrWrongClock(err, header, "grant %s on bucket %s", permission, s.bucket)
}
