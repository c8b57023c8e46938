package aliyunoss

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// serverTime is in the answer to a request whose time is wrong.
var serverTime = regexp.MustCompile(`<ServerTime>([^<]{1,40})</ServerTime>`)

// refusal returns the error for a request that the service does not allow, by its cause
// (alibabacloud.com/help/oss/support/error-codes). permission is what the operation needs.
func (s *Store) refusal(err error, header http.Header, permission string) error {
	var refused oss.ServiceError
	errors.As(err, &refused)
	if found := serverTime.FindStringSubmatch(refused.RawMessage); found != nil {
		if at, err := time.Parse(time.RFC3339, found[1]); err == nil {
			header = http.Header{"Date": {at.UTC().Format(http.TimeFormat)}}
		}
	}
	lower := strings.ToLower(refused.Message)
	switch refused.Code {
	case "RequestTimeTooSkewed", "RequestExpired":
		return remote.WrongClock(err, header)
	case "SignatureDoesNotMatch":
		return remote.RefusedOrWrongClock(err, header,
			"the secret does not belong to the access key, or --oss-endpoint or --oss-region is wrong: correct them")
	case "InvalidAccessKeyId":
		return remote.RefusedOrWrongClock(err, header,
			"the store does not know the access key, or it is disabled: correct it")
	case "SecurityTokenExpired", "InvalidSecurityToken":
		return remote.RefusedOrWrongClock(err, header,
			"the security token is wrong or has expired: renew the credentials")
	case "InvalidObjectState":
		return remote.Refused(err, "the object is archived and cannot be read at once: restore it")
	case "UserDisable", "InvalidPayer":
		return remote.Refused(err, "the account of bucket %s is not in order, as with bills that are not paid: ask "+
			"its owner", s.name)
	case "KmsServiceNotEnabled":
		return remote.Refused(err, "KMS, which encrypts bucket %s, is not activated: activate it", s.name)
	}
	switch {
	case strings.Contains(lower, "must be addressed using the specified endpoint"):
		return remote.Refused(err, "bucket %s is in another region: correct --oss-endpoint", s.name)
	case strings.Contains(lower, "kms"):
		return remote.Refused(err, "grant %s on the KMS key of bucket %s",
			remote.KeyRight(refused.Message, "kms:GenerateDataKey and kms:Decrypt"), s.name)
	case strings.Contains(lower, "request has expired"):
		return remote.WrongClock(err, header)
	}
	return remote.RefusedOrWrongClock(err, header, "grant %s on bucket %s", permission, s.name)
}
