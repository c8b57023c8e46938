package remote

import "fmt"

// Name puts what was done, and with which key, before an error. It is for a deferred call.
func Name(err *error, operation, key string) {
	if *err != nil {
		*err = fmt.Errorf("%s %s: %w", operation, key, *err)
	}
}
