package remote

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestUnanswered: where nothing listens, the error says where it could not connect and what to check, and not what the
// SDK tried; other errors stay.
func TestUnanswered(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := listener.Addr().String()
	must.OK(t, listener.Close())
	_, refused := net.Dial("tcp", address)
	sdk := fmt.Errorf("operation error, exceeded maximum number of attempts, 6: %w", refused)
	err := Unanswered(sdk, "s3-endpoint")
	says.All(t, err.Error(), "cannot connect to the store", address, "check its endpoint")
	says.None(t, err.Error(), "attempts")
	says.ErrorIs(t, err, refused, "is not the connection's error")
	other := errors.New("reset")
	says.True(t, Unanswered(other, "s3-endpoint") == other, "an error without a connection that failed is another one")
}
