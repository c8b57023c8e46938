package blob

import "fmt"

// AccessError says why a store refused a request of these credentials, and what to do. It is an ErrPermission.
type AccessError struct {
	// Advice is the cause and what to do. It holds no secrets and none of the store's words.
	Advice string
	Err    error // the store's
}

func (e *AccessError) Error() string {
	return fmt.Sprintf("%v: %s: %v", ErrPermission, e.Advice, e.Err)
}

func (e *AccessError) Unwrap() []error { return []error{ErrPermission, e.Err} }
