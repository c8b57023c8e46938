package s3

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/rayhistory/historyserver/internal/human"
)

const (
	requesterPays = "x-amz-request-payer"
	encryption    = "x-amz-server-side-encryption"
	encryptionKey = encryption + "-aws-kms-key-id"
)

// sentHeaders are those that Config.Headers may have (docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html).
var sentHeaders = []string{"x-amz-acl", requesterPays, encryption, encryptionKey, encryption + "-bucket-key-enabled",
	encryption + "-context", "x-amz-storage-class", "x-amz-tagging"}

// headers are the values of headers by name, in small letters.
type headers map[string]string

// headers reads c.Headers. A key alone would be refused: it is one of the KMS.
func (c *Config) headers() (headers, error) {
	h := headers{}
	for pair := range strings.SplitSeq(c.Headers, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		switch name = strings.ToLower(name); {
		case pair == "":
		case !ok || value == "" || !slices.Contains(sentHeaders, name):
			return nil, fmt.Errorf("--s3-headers: %q: want NAME=VALUE, with the name %s", name, human.Or(sentHeaders))
		default:
			h[name] = value
		}
	}
	if h[encryptionKey] != "" {
		h[encryption] = cmp.Or(h[encryption], "aws:kms")
	}
	return h, nil
}

// send adds the headers to requests before they are signed: to those that make objects, and requesterPays to all.
func (h headers) send(stack *middleware.Stack) error {
	return stack.Build.Add(middleware.BuildMiddlewareFunc("SendHeaders", func(ctx context.Context,
		in middleware.BuildInput, next middleware.BuildHandler) (middleware.BuildOutput, middleware.Metadata, error) {
		makes := slices.Contains([]string{"PutObject", "CreateMultipartUpload"}, middleware.GetOperationName(ctx))
		if request, ok := in.Request.(*smithyhttp.Request); ok {
			for name, value := range h {
				if makes || name == requesterPays {
					request.Header.Set(name, value)
				}
			}
		}
		return next.HandleBuild(ctx, in)
	}), middleware.After)
}
